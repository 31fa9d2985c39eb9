import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { ExecutionContext } from 'ava';
import { revokeKey, rotateKey } from '../../../ingress/authentication/change-keys.ts';
import type { Account } from '../../../shared/store/records/account.ts';
import { defaultKeyOf } from '../../../shared/store/records/key.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { sized } from '../../support/size.ts';
import { findAccount, keyOwner, namedBy, setPlan } from './changes-contract.ts';
import { type Contract, endedKeysOf, mint, newKey, provesOnStore, type StoreHome } from './store-contract.ts';

const rotator = fileURLToPath(new URL('rotate-from-process.ts', import.meta.url));

/** The guarantees of every store for changes of one account that are concurrent or cut off. */
export function testRacesContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('of 100 concurrent mints for a new account one is made, and all return its key', mintsOnce);
  prove('of 50 concurrent rotations of one key one succeeds, and one key is active', rotatesOnce);
  prove('of a concurrent rotation and revocation exactly one succeeds', racesToOneOutcome);
  prove('each of 50 concurrent changes is made, and returned exactly once', makesEachChange);
  prove('a process that is killed during rotations leaves one active key, the last', survivesKill);
}

async function mintsOnce(t: ExecutionContext, one: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  const keys = Array.from({ length: 100 }, newKey);
  const outcomes = await Promise.all(
    keys.map((key, index) => mint(index % 2 === 0 ? one : other, 'user:ann', { key })),
  );

  t.is(outcomes.filter(({ minted }) => minted).length, 1);
  const account = await findAccount(one, 'user:ann');
  t.is(account.version, 1);
  for (const outcome of outcomes) t.deepEqual(outcome.account, account);
  const owners = await Promise.all(keys.map(({ hash }) => one.accounts.findKeyOwner([hash])));
  t.deepEqual(
    owners.map((found) => found?.keyId),
    outcomes.map(({ minted }) => (minted ? defaultKeyOf(account)?.id : undefined)),
  );
}

async function rotatesOnce(t: ExecutionContext, one: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  const { account } = await mint(one, 'user:ann');
  const keys = Array.from({ length: 50 }, newKey);
  const outcomes = await Promise.all(
    keys.map((key, index) => {
      const named = index % 3 === 0 ? { display: defaultKeyOf(account)?.display ?? '' } : namedBy(account);
      return (index % 2 === 0 ? one : other).accounts.changeAccount('user:ann', rotateKey({ named, key }));
    }),
  );

  const after = await findAccount(one, 'user:ann');
  t.deepEqual(
    outcomes.filter((outcome) => outcome !== undefined),
    [after],
  );
  t.is(after.version, 2);
  t.like(endedKeysOf(after), { length: 1, 0: { id: defaultKeyOf(account)?.id, state: 'rotated' } });
  const owners = await Promise.all(keys.map(({ hash }) => other.accounts.findKeyOwner([hash])));
  t.deepEqual(
    owners.filter((found) => found !== undefined).map(({ keyId }) => keyId),
    [defaultKeyOf(after)?.id],
  );
  t.is(await keyOwner(other, account), undefined);
}

async function racesToOneOutcome(t: ExecutionContext, one: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  for (let round = 0; round < 30; round += 1) {
    const id = `user:${round}`;
    const { account } = await mint(one, id);
    const [named, key] = [namedBy(account), newKey()];
    const rotating = () => one.accounts.changeAccount(id, rotateKey({ named, key }));
    const revoking = () => other.accounts.changeAccount(id, revokeKey({ named, at: new Date() }));
    // Either starts first equally often, because a store may process calls in order.
    const [rotated, revoked] =
      round % 2 === 0
        ? await Promise.all([rotating(), revoking()])
        : await Promise.all([revoking(), rotating()]).then(([second, first]) => [first, second] as const);

    t.true((rotated === undefined) !== (revoked === undefined));
    const after = await findAccount(other, id);
    t.is(after.version, 2);
    t.is(defaultKeyOf(after)?.id, defaultKeyOf(rotated)?.id);
    const state = rotated === undefined ? 'revoked' : 'rotated';
    t.like(endedKeysOf(after), { length: 1, 0: { id: defaultKeyOf(account)?.id, state } });
    t.is(await keyOwner(one, account), undefined);
    t.is((await one.accounts.findKeyOwner([key.hash]))?.keyId, defaultKeyOf(rotated)?.id);
  }
}

async function makesEachChange(t: ExecutionContext, one: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  await mint(one, 'user:ann');
  const plans = Array.from({ length: 50 }, (_, index) => `plan ${index}`);
  const outcomes = await Promise.all(plans.map((plan, index) => setPlan(index % 2 === 0 ? one : other, plan)));

  const after = await findAccount(one, 'user:ann');
  t.is(after.version, 51);
  const made = after.changes.toReversed().flatMap(({ plan }) => (plan === undefined ? [] : [plan]));
  t.deepEqual(made.map(({ to }) => to).sort(), plans.toSorted());
  t.deepEqual(
    made.map(({ from }) => from),
    ['free', ...made.slice(0, -1).map(({ to }) => to)],
    'each was decided on the result of the one before it',
  );
  const versions = outcomes.map((outcome) => outcome?.version ?? 0);
  t.deepEqual(
    versions.sort((a, b) => a - b),
    Array.from({ length: 50 }, (_, index) => index + 2),
  );
}

const kills = sized(8);

async function survivesKill(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  await mint(store, 'user:ann');
  let unanswered = 0;
  for (let round = 0; round < kills; round += 1) {
    const before = await findAccount(store, 'user:ann');
    const answered = await rotateUntilKilled(home.url, 1 + Math.floor(Math.random() * 10));
    const after = await rotateAgain(store);
    const { changes, version } = after;
    const key = defaultKeyOf(after);

    const made = version - before.version;
    t.true(made === answered.length + 1 || made === answered.length + 2, `${made} made, ${answered.length} answered`);
    unanswered += made - answered.length - 1;
    const kept = endedKeysOf(after).map(({ id }) => id);
    const known = kept.slice(made - answered.length - 1, made); // newest first, up to the key before this round
    t.deepEqual(known, [...answered.toReversed(), defaultKeyOf(before)?.id ?? ''].slice(0, known.length));
    t.deepEqual(changes[0]?.keyRotated, { from: kept[0] ?? '', to: key?.id ?? '' });
    t.is((await store.accounts.findKeyOwner([key?.hash ?? '']))?.keyId, key?.id);
  }
  t.log(`of ${kills} killed processes, ${unanswered} had made a rotation that they could not answer`);
}

/**
 * Rotates the listed key again, as an owner does who received no reply. A rotation that the killed process left unfinished has no effect:
 * it was decided on an older version.
 */
async function rotateAgain(store: Store): Promise<Account> {
  for (;;) {
    const named = { display: defaultKeyOf(await findAccount(store, 'user:ann'))?.display ?? '' };
    const rotated = await store.accounts.changeAccount('user:ann', rotateKey({ named, key: newKey() }));
    if (rotated !== undefined) return rotated;
  }
}

/** The ids of the keys that a process reported as minted. It is killed while it continues after this many. */
async function rotateUntilKilled(url: string, count: number): Promise<string[]> {
  const child = spawn(process.execPath, [rotator, url, 'user:ann'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const answered: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    answered.push(line);
    if (answered.length === count) setTimeout(() => child.kill('SIGKILL'), Math.random() * 5);
  }
  const [, signal] = await exited;
  if (signal !== 'SIGKILL') throw new Error('the process was not killed');
  return answered;
}
