import { readFileSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import { takeTurns } from '../../../ingress/middleware/take-turns.ts';
import type { AppContext } from '../../../ingress/request-state.ts';

/** Requests of accounts, each of which runs until it is ended. */
function open() {
  const stage = takeTurns();
  const begun: string[] = [];

  function send(account: string, name: string, plan = 'free') {
    const ended = Promise.withResolvers<void>();
    const socket = { destroyed: false };
    const ctx = { state: { caller: { account, plan } }, req: { socket } } as unknown as AppContext; // it uses nothing else
    const done = stage(ctx, () => {
      begun.push(name);
      return ended.promise;
    });
    return { ...ended, done, leave: () => Object.assign(socket, { destroyed: true }) };
  }
  return { send, begun };
}

test('two requests of an account run at once, the others begin in order, each in a turn of its own', async (t) => {
  const { send, begun } = open();
  const [first, second] = ['1', '2', '3', '4'].map((name) => send('user:a', name));
  send('user:b', 'other');
  t.deepEqual(begun, ['1', '2', 'other']);
  first?.resolve();
  second?.resolve();
  await first?.done;
  t.deepEqual(begun, ['1', '2', 'other']);
  await nextTurn();
  t.deepEqual(begun, ['1', '2', 'other', '3', '4']);
});

test('a request that fails gives its turn to the next one, and one whose client has left is not begun', async (t) => {
  const { send, begun } = open();
  const first = send('user:a', '1');
  const second = send('user:a', '2');
  const left = send('user:a', 'left');
  left.leave();
  send('user:a', '3');
  first.reject(new Error('refused'));
  await t.throwsAsync(first.done, { message: 'refused' });
  await left.done;
  await nextTurn();
  t.deepEqual(begun, ['1', '2', '3']);
  second.resolve();
  await second.done;
});

test('all devices together have the turns of one account, and turns that were free are free again', async (t) => {
  const { send, begun } = open();
  const devices = ['1', '2', '3'].map((name) => send(`device:${name}`, name, 'guest-device'));
  t.deepEqual(begun, ['1', '2']);
  for (const { resolve } of devices) resolve();
  await Promise.all(devices.map(({ done }) => done));
  t.deepEqual(begun, ['1', '2', '3']);
  for (const name of ['4', '5', '6']) send('device:x', name, 'guest-device');
  t.deepEqual(begun.slice(3), ['4', '5']);
});

test('every route of an account that no limit counts has it, except uploads, downloads and what needs no store', (t) => {
  const sources = ['router.ts', 'routes/webhooks/route-webhooks.ts'];
  const text = sources.map((name) => readFileSync(new URL(`../../../ingress/${name}`, import.meta.url), 'utf8')).join();
  const routes = Array.from(text.matchAll(/router\.\w+\(\s*'([^']+)'(.*?)\);/gs), ([, path = '', stages = '']) => ({
    path,
    stages,
  }));
  const uncounted = routes.filter(
    ({ stages }) => /\bcheck\b|\.\.\.head\b/.test(stages) && !/\basOperator\b/.test(stages),
  );
  t.true(uncounted.length > 15);
  t.deepEqual(
    uncounted.filter(({ stages }) => !/\bturn\b/.test(stages)).map(({ path }) => path),
    ['/v1/models', '/v1/models/*model', '/v1/files', '/v1/files/:file/content', '/billing/plan'],
  );
});
