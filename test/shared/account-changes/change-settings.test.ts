import test from 'ava';
import { changeSettings, newAccount } from '../../../shared/account-changes/change-settings.ts';
import type { Decision } from '../../../shared/store/documents.ts';
import type { Account } from '../../../shared/store/records/account.ts';

const t1 = new Date('2026-01-01');
const t2 = new Date('2026-01-02');
const ann: Account = {
  ...newAccount('user:ann', 'free', t1),
  version: 1,
  changes: [{ at: t1, by: 'user:ann', keyMinted: 'key_one' }],
};

test('a change creates an unused account only if this is requested', (t) => {
  const by = { by: 'user:operator', at: t2 };
  const unknown = { id: 'user:ann', plan: 'free' };
  const suspend = { settings: { suspended: true }, ...by };
  t.deepEqual(changeSettings(suspend)(undefined), { result: undefined });
  t.deepEqual(changeSettings({ settings: { suspended: false, plan: 'free' }, ...by, unknown })(undefined), {
    result: undefined,
  });
  const next = nextOf(changeSettings({ ...suspend, unknown })(undefined));
  t.like(next, { id: 'user:ann', plan: 'free', suspended: true, version: 1, createdAt: t2 });
  t.deepEqual(next.changes, [{ ...by, suspended: true }]);
});

test('settings are changed together, and the trail records old value, time and author', (t) => {
  const account = ann;
  const cases = [
    [{ plan: 'pro' }, { plan: { from: 'free', to: 'pro' } }],
    [{ suspended: true }, { suspended: true }],
    [
      { plan: 'pro', suspended: true },
      { plan: { from: 'free', to: 'pro' }, suspended: true },
    ],
    [{ plan: 'free', suspended: true }, { suspended: true }],
    [{ overageEnabled: true }, { overageEnabled: true }],
    [{ overageTokensMax: 5 }, { overageTokensMax: 5 }],
    [
      { overageEnabled: true, plan: 'pro' },
      { plan: { from: 'free', to: 'pro' }, overageEnabled: true },
    ],
  ] as const;
  for (const [settings, said] of cases) {
    const { result, next } = changeSettings({ settings, at: t2, by: 'user:operator' })(account);
    const changes = [{ at: t2, by: 'user:operator', ...said }, ...account.changes];
    t.deepEqual(next, { ...account, ...settings, version: 2, changes });
    t.is(result, next);
  }
});

test('a suspension can be lifted, and this is recorded, too', (t) => {
  const suspended = { ...ann, suspended: true };
  const next = nextOf(changeSettings({ settings: { suspended: false }, at: t2, by: 'user:operator' })(suspended));
  t.false(next.suspended);
  t.deepEqual(next.changes[0], { at: t2, by: 'user:operator', suspended: false });
});

test('a bound of overage stays until it is replaced or removed', (t) => {
  const change = (settings: object, account = ann) => changeSettings({ settings, at: t2, by: 'user:ann' })(account);
  const bounded = nextOf(change({ overageEnabled: true, overageTokensMax: 5 }));
  t.is(nextOf(change({ overageEnabled: false }, bounded)).overageTokensMax, 5);
  for (const same of [{ overageTokensMax: 5 }, { overageTokensMax: undefined }])
    t.deepEqual(change(same, bounded), { result: bounded });
  t.deepEqual(change({ overageTokensMax: null }), { result: ann });
  const removed = nextOf(change({ overageTokensMax: null }, bounded));
  t.false('overageTokensMax' in removed);
  t.like(removed.changes[0], { overageTokensMax: null });
});

const topUp = (id: string, tokens: number, at = t1) =>
  changeSettings({ settings: { topUp: { id, tokens } }, at, by: 'user:operator' });

test('top-ups add up within their month, and the next month starts with none', (t) => {
  const [march, lateMarch, april] = ['2026-03-01', '2026-03-31T23:59:59.999Z', '2026-04-01'].map((at) => new Date(at));
  const first = nextOf(topUp('a', 500, march)(ann));
  t.like(first, { version: 2, topUp: { month: '2026-03', tokens: 500 } });
  t.deepEqual(first.changes[0], { at: march ?? t1, by: 'user:operator', topUp: { id: 'a', tokens: 500 } });
  const second = nextOf(topUp('b', 20, lateMarch)(first));
  t.deepEqual(second.topUp, { month: '2026-03', tokens: 520 });
  const third = nextOf(topUp('c', 1, april)(second));
  t.deepEqual(third.topUp, { month: '2026-04', tokens: 1 });
  t.deepEqual(
    third.topUpsMade.map(({ id }) => id),
    ['c', 'b', 'a'],
  );
  t.deepEqual(nextOf(topUp('d', 2, lateMarch)(third)).topUp, { month: '2026-04', tokens: 3 });
});

test('a top-up counts once by its id, even if repeated in another month; with other tokens it is a conflict', (t) => {
  const account = nextOf(topUp('a', 500)(ann));
  for (const at of [t1, new Date('2027-01-01')]) {
    t.deepEqual(topUp('a', 500, at)(account), { result: account });
    t.like(
      t.throws(() => topUp('a', 501, at)(account)),
      { name: 'ApiError', code: 'CONFLICT' },
    );
  }
  const both = { settings: { plan: 'pro', topUp: { id: 'a', tokens: 500 } }, at: t2, by: 'user:operator' };
  const next = nextOf(changeSettings(both)(account));
  t.like(next, { plan: 'pro', topUp: { tokens: 500 } });
  t.deepEqual(next.changes[0], { at: t2, by: 'user:operator', plan: { from: 'free', to: 'pro' } });
  const clash = { ...both, settings: { plan: 'pro', topUp: { id: 'a', tokens: 1 } } };
  t.throws(() => changeSettings(clash)(account));
});

test('the last 500 top-ups are remembered, across months', (t) => {
  let account = ann;
  for (let index = 0; index < 501; index += 1) {
    account = nextOf(topUp(String(index), 1, new Date(Date.UTC(2026, index % 12)))(account));
  }
  t.is(account.topUpsMade.length, 500);
  t.is(topUp('1', 1)(account).next, undefined);
  t.not(topUp('0', 1)(account).next, undefined);
});

test('the top-ups of a month stay within exact integers', (t) => {
  const full = { ...ann, topUp: { month: '2026-01', tokens: 1e15 - 1 } };
  t.is(nextOf(topUp('a', 1)(full)).topUp?.tokens, 1e15);
  t.like(
    t.throws(() => topUp('a', 2)(full)),
    { code: 'VALIDATION_ERROR' },
  );
});

test('settings with their current values change nothing, and an unknown account has none', (t) => {
  const account = ann;
  const same = [{}, { plan: 'free' }, { suspended: false }, { overageEnabled: false }, { plan: undefined }];
  for (const settings of same) {
    t.deepEqual(changeSettings({ settings, at: t2, by: 'user:operator' })(account), { result: account });
  }
  const settings = { plan: 'pro' };
  t.deepEqual(changeSettings({ settings, at: t2, by: 'user:operator' })(undefined), { result: undefined });
});

test('no decision mutates its input account', (t) => {
  const before = structuredClone(ann);
  nextOf(changeSettings({ settings: { plan: 'pro' }, at: t2, by: 'user:operator' })(ann));
  nextOf(topUp('a', 1)(ann));
  t.deepEqual(ann, before);
});

function nextOf(decision: Decision<Account, unknown>): Account {
  if (decision.next === undefined) throw new Error('no change is expected');
  return decision.next;
}
