import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import { createDisplayNames } from '../../../ingress/authentication/sign-in.ts';
import type { NamedAccount } from '../../../shared/store/records/account-store.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const [read, change] = [{ isChange: false }, { isChange: true }];

test('the store is asked once for each name of an account, and after each change of the account', async (t) => {
  const asked: NamedAccount[] = [];
  const names = { keepName: async (account: NamedAccount) => void asked.push(account) };
  const { keep } = createDisplayNames({ names, log: recordedLog().log });
  for (const name of ['Ann', 'Ann', 'Ann Other', 'Ann Other']) await keep('user:ann', name, read);
  await keep('user:bob', 'Ann Other', read);
  t.deepEqual(asked, [
    { id: 'user:ann', name: 'Ann' },
    { id: 'user:ann', name: 'Ann Other' },
    { id: 'user:bob', name: 'Ann Other' },
  ]);
  await keep('user:bob', 'Ann Other', change);
  t.is(asked.length, 4);
});

test('a store that is unavailable delays no request for long, and is asked again later', async (t) => {
  let asked = 0;
  const { log, lines } = recordedLog();
  const names = {
    keepName: async () => {
      asked += 1;
      throw new Error('unavailable');
    },
  };
  const { keep } = createDisplayNames({ names, log });
  await keep('user:ann', 'Ann', read);
  await keep('user:ann', 'Ann', read);
  t.is(asked, 2);
  t.notRegex(JSON.stringify(lines), /ann/i);
  const silent = createDisplayNames({ names: { keepName: () => new Promise(() => {}) }, log, waitMs: 1 });
  await t.notThrowsAsync(silent.keep('user:ann', 'Ann', change));
  const gate = Promise.withResolvers<void>();
  const slow = createDisplayNames({ names: { keepName: () => gate.promise }, log, waitMs: 600_000 });
  const order: string[] = [];
  const keeping = slow.keep('user:ann', 'Ann', change).then(() => order.push('kept'));
  await nextTurn();
  order.push('answered');
  gate.resolve();
  await keeping;
  t.deepEqual(order, ['answered', 'kept'], 'a request waits for its name');
});
