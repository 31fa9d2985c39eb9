import type { ExecutionContext } from 'ava';
import { ulid } from 'ulid';
import { ApiError } from '../../../shared/errors.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import {
  claimCode,
  markApplied,
  revokeCode,
  type ShownCodeState,
  type TopUpCode,
} from '../../../shared/store/records/top-up-codes.ts';
import { type Contract, provesOnStore, type StoreHome } from './store-contract.ts';
import { codeTime, topUpCodeOf } from './top-up-code-records.ts';

export const claimBy = (account: string, at = codeTime) => claimCode({ account, at, from: '203.0.113.9' });
const revoke = (at = codeTime) => revokeCode({ by: 'user:olga', at, from: '198.51.100.7' });

/** The guarantees of every store for top-up codes. */
export function testTopUpCodesContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('a code is found by its hash, unchanged, also by a store that is opened later', findsCode);
  prove('stores only the fields of a code', keepsNothingElse);
  prove('of 50 concurrent claims of one code one succeeds, and its account can repeat it', claimsOnce);
  prove('of a concurrent claim and revocation exactly one succeeds', racesToOneOutcome);
  prove('a code is listed by its state, and one that has expired since its last millisecond', listsByState);
  prove('pages have the newest codes first, each once', listsPages);
  prove(
    'claimed codes are listed in order of their ids until they are marked, those of the last moments left out',
    listsClaimed,
  );
  prove('a thousand codes can be inserted together', insertsMany);
  prove('a decision about an unknown code changes nothing', ignoresUnknown);
}

const idsOf = (codes: readonly TopUpCode[]) => codes.map(({ id }) => id);
const outcomeOf = (change: Promise<unknown>) =>
  change.then(
    () => 'done',
    (error: unknown) => (error instanceof ApiError ? error.code : error),
  );

async function findsCode(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  const code = topUpCodeOf({ note: 'Spring sale ü 🙂', expiresAt: new Date('2027-01-01') });
  await store.topUpCodes.insertCodes([code, topUpCodeOf()]);
  t.deepEqual(await store.topUpCodes.findCode(code.hash), code);
  t.is(await store.topUpCodes.findCode('another hash'), undefined);
  const claimed = await store.topUpCodes.changeCode(code.id, claimBy('user:ann'));
  t.deepEqual(claimed, {
    ...code,
    state: 'claimed',
    redeemed: { account: 'user:ann', at: codeTime, from: '203.0.113.9' },
  });
  await using later = await home.open();
  t.deepEqual(await later.topUpCodes.findCode(code.hash), claimed);
}

async function keepsNothingElse(t: ExecutionContext, store: Store): Promise<void> {
  const code = topUpCodeOf();
  await store.topUpCodes.insertCodes([{ ...code, code: 'TOPUP-SECRET' } as TopUpCode]);
  t.deepEqual(await store.topUpCodes.findCode(code.hash), code);
}

async function claimsOnce(t: ExecutionContext, one: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  const code = topUpCodeOf();
  await one.topUpCodes.insertCodes([code]);
  const accounts = Array.from({ length: 50 }, (_, index) => `user:${index}`);
  const outcomes = await Promise.all(
    accounts.map((account, index) =>
      outcomeOf((index % 2 === 0 ? one : other).topUpCodes.changeCode(code.id, claimBy(account))),
    ),
  );
  const winner = accounts[outcomes.indexOf('done')] ?? '';
  t.is(outcomes.filter((outcome) => outcome === 'CONFLICT').length, 49);
  const found = await other.topUpCodes.findCode(code.hash);
  t.like(found, { state: 'claimed', redeemed: { account: winner } });
  const again = await one.topUpCodes.changeCode(code.id, claimBy(winner, new Date('2026-04-01')));
  t.deepEqual(again, found, 'the first claim stays');
}

async function racesToOneOutcome(t: ExecutionContext, one: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  for (let round = 0; round < 20; round++) {
    const code = topUpCodeOf();
    await one.topUpCodes.insertCodes([code]);
    const [claimed, revoked] = await Promise.all([
      outcomeOf((round % 2 === 0 ? one : other).topUpCodes.changeCode(code.id, claimBy('user:ann'))),
      outcomeOf((round % 3 === 0 ? one : other).topUpCodes.changeCode(code.id, revoke())),
    ]);
    t.deepEqual([claimed, revoked].toSorted(), ['CONFLICT', 'done']);
    t.is((await one.topUpCodes.findCode(code.hash))?.state, claimed === 'done' ? 'claimed' : 'revoked');
  }
}

async function listsByState(t: ExecutionContext, { topUpCodes }: Store): Promise<void> {
  const at = (ms: number) => new Date(codeTime.getTime() + ms);
  const codes = {
    unending: topUpCodeOf(),
    ending: topUpCodeOf({ expiresAt: at(1) }),
    ended: topUpCodeOf({ expiresAt: at(0) }),
    claimed: topUpCodeOf({ expiresAt: at(1) }),
    redeemed: topUpCodeOf(),
    revoked: topUpCodeOf({ expiresAt: at(0) }),
  };
  await topUpCodes.insertCodes(Object.values(codes));
  await topUpCodes.changeCode(codes.claimed.id, claimBy('user:ann'));
  await topUpCodes.changeCode(codes.redeemed.id, claimBy('user:ann'));
  await topUpCodes.changeCode(codes.redeemed.id, markApplied(codeTime));
  await topUpCodes.changeCode(codes.revoked.id, revoke());
  const listed = async (state: ShownCodeState | undefined, now = codeTime) => {
    const found = idsOf(await topUpCodes.listCodes({ state, now, limit: 10 }));
    return Object.entries(codes).flatMap(([name, { id }]) => (found.includes(id) ? [name] : []));
  };
  t.deepEqual(await listed(undefined), Object.keys(codes));
  t.deepEqual(await listed('unused'), ['unending', 'ending']);
  t.deepEqual(await listed('expired'), ['ended']);
  t.deepEqual(await listed('expired', at(1)), ['ending', 'ended']);
  t.deepEqual(await listed('unused', at(1)), ['unending']);
  t.deepEqual(await listed('redeemed', at(1)), ['claimed', 'redeemed']);
  t.deepEqual(await listed('revoked'), ['revoked']);
}

async function listsPages(t: ExecutionContext, { topUpCodes }: Store): Promise<void> {
  const codes = Array.from({ length: 250 }, (_, index) => topUpCodeOf({ id: `tuc_${ulid(index + 1)}` }));
  await topUpCodes.insertCodes(codes);
  await topUpCodes.changeCode(codes[200]?.id ?? '', revoke());
  const newestFirst = idsOf(codes).toReversed();
  t.deepEqual(idsOf(await topUpCodes.listCodes({ now: codeTime, limit: 1_000 })), newestFirst);
  const unused = newestFirst.filter((id) => id !== codes[200]?.id);
  const found: string[] = [];
  for (let after: string | undefined; ; after = found.at(-1)) {
    const page = await topUpCodes.listCodes({ state: 'unused', now: codeTime, after, limit: 101 });
    found.push(...idsOf(page));
    if (page.length < 101) break;
  }
  t.deepEqual(found, unused);
}

async function listsClaimed(t: ExecutionContext, { topUpCodes }: Store): Promise<void> {
  const codes = Array.from({ length: 5 }, (_, index) => topUpCodeOf({ id: `tuc_${ulid(index + 1)}` }));
  const [first, second, third, marked] = idsOf(codes);
  await topUpCodes.insertCodes(codes);
  const later = new Date(codeTime.getTime() + 1);
  for (const id of [third, first, marked]) await topUpCodes.changeCode(id ?? '', claimBy('user:ann'));
  await topUpCodes.changeCode(second ?? '', claimBy('user:ann', later));
  await topUpCodes.changeCode(marked ?? '', markApplied(later));
  const list = async (before: Date, { after = '', limit = 10 } = {}) =>
    idsOf(await topUpCodes.listClaimedCodes({ before, after, limit }));
  t.deepEqual(await list(codeTime), []);
  t.deepEqual(await list(later), [first ?? '', third ?? '']);
  const all = [first, second, third].map((id) => id ?? '');
  t.deepEqual(await list(new Date('2030-01-01')), all);
  t.deepEqual(await list(new Date('2030-01-01'), { limit: 2 }), all.slice(0, 2));
  t.deepEqual(await list(new Date('2030-01-01'), { after: second ?? '' }), all.slice(2));
}

async function insertsMany(t: ExecutionContext, { topUpCodes }: Store): Promise<void> {
  await topUpCodes.insertCodes(Array.from({ length: 1_000 }, () => topUpCodeOf()));
  t.is((await topUpCodes.listCodes({ now: codeTime, limit: 2_000 })).length, 1_000);
}

async function ignoresUnknown(t: ExecutionContext, { topUpCodes }: Store): Promise<void> {
  t.is(await outcomeOf(topUpCodes.changeCode('tuc_none', claimBy('user:ann'))), 'NOT_FOUND');
  t.is(await topUpCodes.changeCode('tuc_none', (code) => ({ result: code?.state, next: topUpCodeOf() })), undefined);
  t.deepEqual(await topUpCodes.listCodes({ now: codeTime, limit: 1 }), []);
}
