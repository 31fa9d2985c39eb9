import test from 'ava';
import { useAccountAgain } from '../../../ingress/middleware/authenticate.ts';
import type { AppContext } from '../../../ingress/request-state.ts';
import type { ChangeAccount } from '../../../shared/account-changes/change-account.ts';
import { newAccount } from '../../../shared/account-changes/change-settings.ts';
import { temporarilyUnavailable } from '../../../shared/errors.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const at = new Date(7);
const caller = { account: 'user:ann', version: 3 };
const ctx = { state: { caller, now: at.getTime() } } as unknown as AppContext; // all that the stage reads
const removed = { ...newAccount('user:ann', 'free', at), removal: { at: new Date(5), isDone: true } };

test('what is stored brings its account back, and what is refused does not', async (t) => {
  const seen: unknown[] = [];
  const changeAccount: ChangeAccount = async (account, decide, version) => {
    const { result, next } = decide(removed);
    seen.push(account, version, next?.removal, next?.changes);
    return result;
  };
  const stage = useAccountAgain({ changeAccount, log: recordedLog().log });
  const refusal = new Error('refused');
  await t.throwsAsync(
    stage(ctx, async () => {
      throw refusal;
    }),
    { is: refusal },
  );
  t.deepEqual(seen, []);
  await stage(ctx, async () => void seen.push('stored'));
  t.deepEqual(seen, ['stored', 'user:ann', 3, undefined, [{ at, by: 'user:ann' }]]);
});

test('a request that has stored something does not fail because the store is away after that', async (t) => {
  const { log, lines } = recordedLog();
  const changeAccount = async () => {
    throw temporarilyUnavailable(new Error('away'));
  };
  await t.notThrowsAsync(async () => useAccountAgain({ changeAccount, log })(ctx, async () => {}));
  t.like(lines, { length: 1, 0: { level: 'warn', fields: { account: 'user:ann' } } });
});
