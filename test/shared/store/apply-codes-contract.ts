import type { ExecutionContext } from 'ava';
import { createApplyTopUpCode, topUpIdOf } from '../../../shared/account-changes/apply-top-up-code.ts';
import { createRecordedChange } from '../../../shared/account-changes/change-account.ts';
import { changeSettings } from '../../../shared/account-changes/change-settings.ts';
import { storeUnavailable } from '../../../shared/store/documents.ts';
import type { AccountStore } from '../../../shared/store/records/account-store.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import type { TopUpCode } from '../../../shared/store/records/top-up-codes.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { type Contract, failsWith, provesOnStore, type StoreHome } from './store-contract.ts';
import { codeTime, topUpCodeOf } from './top-up-code-records.ts';
import { claimBy } from './top-up-codes-contract.ts';

const account = 'user:ann';

/** The guarantees of every store for codes that are applied to accounts: their tokens are added once, whatever happens in between. */
export function testApplyCodesContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('20 processes that apply one code at once add its tokens once, with one audit record', addsOnce);
  prove('a process that dies before it marks the code: the next one marks it, and adds nothing', marksLater);
  prove('a code that was applied long ago and not marked is found in the audit trail', remembersInTrail);
  prove('a top-up that leaves the list after it was read is not made again', remembersWhatItRead);
  prove('an account with many top-ups gets the tokens of a code that was not applied', addsBesideMany);
  prove('other changes of the account between the steps change nothing', survivesOtherChanges);
  prove('no decision is made on a list that may have lost the top-up since it was read', refusesOldList);
  prove('the tokens count in the month in which they are added', addsToLaterMonth);
  prove('a month with too many top-ups leaves the code to the next month', waitsForNextMonth);
}

type Fields = Partial<Pick<AccountStore, 'findAccount'> & Pick<Store, 'topUpCodes'>>;

function applierOn(store: Store, { topUpCodes = store.topUpCodes, ...replaced }: Fields = {}) {
  const { log, lines } = recordedLog();
  const changedAccounts: string[] = [];
  const changeAccount: AccountStore['changeAccount'] = (id, decide) => {
    changedAccounts.push(id);
    return store.accounts.changeAccount(id, decide);
  };
  const apply = createApplyTopUpCode({
    changeRecorded: createRecordedChange({ changeAccount, store, log }),
    store: { ...store, topUpCodes, accounts: { ...store.accounts, ...replaced } },
    ...{ defaultPlan: () => 'free', log },
  });
  return { apply: (code: TopUpCode, at = codeTime) => apply(code, { at }), lines, changedAccounts };
}

async function claimed(store: Store): Promise<TopUpCode> {
  const code = topUpCodeOf();
  await store.topUpCodes.insertCodes([code]);
  return store.topUpCodes.changeCode(code.id, claimBy(account));
}

const stateOf = async (store: Store, { hash }: TopUpCode) => (await store.topUpCodes.findCode(hash))?.state;
const tokensOf = async (store: Store) => (await store.accounts.findAccount(account))?.topUp?.tokens;
const trailOf = async (store: Store, code: TopUpCode) =>
  (await store.audit.listAudit({ account, limit: 2_000 })).filter(({ change }) => change.topUp?.id === topUpIdOf(code));

/** `count` top-ups of one token each by an operator. */
async function topUpOften(store: Store, count: number, first = 0): Promise<void> {
  for (let index = first; index < first + count; index++) {
    const topUp = { id: `other-${index}`, tokens: 1 };
    const unknown = { id: account, plan: 'free' };
    await store.accounts.changeAccount(
      account,
      changeSettings({ settings: { topUp }, at: codeTime, by: 'user:olga', unknown }),
    );
  }
}

async function addsOnce(t: ExecutionContext, one: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  const code = await claimed(one);
  const appliers = [applierOn(one), applierOn(other)];
  await Promise.all(Array.from({ length: 20 }, (_, index) => appliers[index % 2]?.apply(code)));
  t.like(await one.accounts.findAccount(account), {
    ...{ plan: 'free', version: 1, topUp: { month: '2026-03', tokens: 500 } },
    topUpsMade: [{ id: `code ${code.id}`, tokens: 500 }],
  });
  t.is(await stateOf(one, code), 'redeemed');
  const trail = await trailOf(one, code);
  t.like(trail, { length: 1, 0: { actor: account, address: '203.0.113.9', account, reason: null } });
  const lines = appliers.flatMap((applier) => applier.lines);
  t.deepEqual(
    lines.map(({ message, fields }) => [message, fields]),
    [['an account was changed', { audit: trail[0] }]],
  );
}

async function marksLater(t: ExecutionContext, store: Store): Promise<void> {
  const code = await claimed(store);
  const changeCode = () => Promise.reject(storeUnavailable(new Error('gone')));
  const dying = applierOn(store, { topUpCodes: { ...store.topUpCodes, changeCode } });
  t.like(await dying.apply(code), { topUp: { tokens: 500 } });
  t.is(await stateOf(store, code), 'claimed');
  t.true(dying.lines.some(({ message }) => message.startsWith('a top-up code was applied and not marked')));
  t.like(await applierOn(store).apply(code), { topUp: { tokens: 500 }, version: 1 });
  t.is(await stateOf(store, code), 'redeemed');
  t.is((await trailOf(store, code)).length, 1);
}

async function remembersInTrail(t: ExecutionContext, store: Store): Promise<void> {
  const code = await claimed(store);
  const changeCode = () => Promise.reject(storeUnavailable(new Error('gone')));
  await applierOn(store, { topUpCodes: { ...store.topUpCodes, changeCode } }).apply(code);
  await topUpOften(store, 501);
  const { topUpsMade = [] } = (await store.accounts.findAccount(account)) ?? {};
  t.false(
    topUpsMade.some(({ id }) => id === topUpIdOf(code)),
    'the account has forgotten it',
  );
  const later = applierOn(store);
  await later.apply(code);
  t.is(await tokensOf(store), 500 + 501);
  t.is(await stateOf(store, code), 'redeemed');
  t.deepEqual(later.changedAccounts, [account], 'a change that was answered with 503 applies from now on');
}

async function remembersWhatItRead(t: ExecutionContext, store: Store): Promise<void> {
  const code = await claimed(store);
  const changeCode = () => Promise.reject(storeUnavailable(new Error('gone')));
  await applierOn(store, { topUpCodes: { ...store.topUpCodes, changeCode } }).apply(code);
  await topUpOften(store, 498);
  const read = await store.accounts.findAccount(account);
  t.is(read?.topUpsMade.length, 499, 'the list is not full');
  await topUpOften(store, 2, 498);
  await applierOn(store, { findAccount: async () => read }).apply(code);
  t.is(await tokensOf(store), 500 + 500);
  t.is(await stateOf(store, code), 'redeemed');
}

async function addsBesideMany(t: ExecutionContext, store: Store): Promise<void> {
  await topUpOften(store, 501);
  const code = await claimed(store);
  await applierOn(store).apply(code);
  await applierOn(store).apply(code);
  t.is(await tokensOf(store), 500 + 501);
  t.is((await trailOf(store, code)).length, 1);
}

async function survivesOtherChanges(t: ExecutionContext, store: Store): Promise<void> {
  const code = await claimed(store);
  await topUpOften(store, 1);
  const suspend = (suspended: boolean) =>
    store.accounts.changeAccount(account, changeSettings({ settings: { suspended }, at: codeTime, by: 'user:olga' }));
  await suspend(true);
  await applierOn(store).apply(code);
  t.like(await store.accounts.findAccount(account), { suspended: true, topUp: { tokens: 501 } });
  await suspend(false);
  await applierOn(store).apply(code);
  t.like(await store.accounts.findAccount(account), { suspended: false, topUp: { tokens: 501 } });
}

async function refusesOldList(t: ExecutionContext, store: Store): Promise<void> {
  await topUpOften(store, 501);
  const code = await claimed(store);
  const early = async (id: string) => {
    const found = await store.accounts.findAccount(id);
    return found && { ...found, version: found.version - 500 };
  };
  await failsWith(t, 'SERVICE_UNAVAILABLE', applierOn(store, { findAccount: early }).apply(code));
  t.is(await tokensOf(store), 501);
  t.is(await stateOf(store, code), 'claimed');
}

async function addsToLaterMonth(t: ExecutionContext, store: Store): Promise<void> {
  const code = await claimed(store);
  const april = new Date('2026-04-01T00:00:00.000Z');
  t.like(await applierOn(store).apply(code, april), { topUp: { month: '2026-04', tokens: 500 } });
}

async function waitsForNextMonth(t: ExecutionContext, store: Store): Promise<void> {
  const topUp = { id: 'all', tokens: 1e15 };
  const unknown = { id: account, plan: 'free' };
  await store.accounts.changeAccount(
    account,
    changeSettings({ settings: { topUp }, at: codeTime, by: 'user:olga', unknown }),
  );
  const code = await claimed(store);
  const { apply } = applierOn(store);
  t.like(await t.throwsAsync(apply(code)), { code: 'CONFLICT' });
  t.is(await stateOf(store, code), 'claimed');
  t.like(await apply(code, new Date('2026-04-01')), { topUp: { month: '2026-04', tokens: 500 } });
  t.is(await stateOf(store, code), 'redeemed');
}
