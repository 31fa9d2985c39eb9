import { EventEmitter } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import type { AppContext } from '../../../ingress/request-state.ts';
import { takeTurns } from '../../../ingress/router.ts';
import { routes } from '../../../ingress/routes.ts';

/** Requests of accounts. While the loop is busy, the pauses are ended by hand. */
function open() {
  const loop = { isBusy: false };
  const pauses: (() => void)[] = [];
  const stage = takeTurns({ isBusy: () => loop.isBusy, pause: (then) => void pauses.push(then) });
  const begun: string[] = [];

  function send(account: string, name: string, plan = 'free') {
    const socket = Object.assign(new EventEmitter(), { destroyed: false });
    const ctx = { state: { caller: { account, plan } }, req: { socket } } as unknown as AppContext; // it uses nothing else
    const done = stage(ctx, async () => void begun.push(name));
    return {
      done,
      leave() {
        socket.destroyed = true;
        socket.emit('close');
      },
      listeners: () => socket.listenerCount('close'),
    };
  }
  /** Ends the pauses that have begun, in order. */
  async function pass(): Promise<void> {
    for (const end of pauses.splice(0)) end();
    await nextTurn();
  }
  return { send, begun, loop, pass };
}

test('of an account one request begins in each turn, in order, and others begin meanwhile', async (t) => {
  const { send, begun } = open();
  const sent = ['1', '2', '3'].map((name) => send('user:a', name));
  const other = send('user:b', 'other');
  await sent[0]?.done;
  await other.done;
  t.deepEqual(begun, ['1', 'other']);
  await sent[1]?.done;
  t.deepEqual(begun, ['1', 'other', '2']);
  await sent[2]?.done;
  t.deepEqual(begun, ['1', 'other', '2', '3']);
});

test('while the loop is busy, one begins after each pause, also if none waits before it', async (t) => {
  const { send, begun, loop, pass } = open();
  loop.isBusy = true;
  for (const name of ['1', '2']) send('user:a', name);
  await nextTurn();
  t.deepEqual(begun, []);
  await pass();
  t.deepEqual(begun, ['1']);
  await pass();
  t.deepEqual(begun, ['1', '2']);
  send('user:a', '3');
  await nextTurn();
  t.deepEqual(begun, ['1', '2']);
  await pass();
  t.deepEqual(begun, ['1', '2', '3']);
});

test('a request whose client leaves waits no longer, and is not begun', async (t) => {
  const { send, begun, loop, pass } = open();
  loop.isBusy = true;
  const left = Array.from({ length: 1_000 }, (_, index) => send('user:a', `left ${index}`));
  const stays = send('user:a', 'stays');
  for (const { leave } of left) leave();
  await Promise.all(left.map(({ done }) => done));
  const gone = send('user:a', 'gone');
  gone.leave();
  await gone.done;
  t.deepEqual(begun, []);
  await pass();
  await stays.done;
  t.deepEqual(begun, ['stays']);
  t.is(stays.listeners(), 0);
});

test('all devices together have the turns of one account', async (t) => {
  const { send, begun, loop, pass } = open();
  loop.isBusy = true;
  for (const name of ['1', '2']) send(`device:${name}`, name, 'guest-device');
  await pass();
  t.deepEqual(begun, ['1']);
  await pass();
  t.deepEqual(begun, ['1', '2']);
});

test('every route of an account that no limit counts has it, except uploads, downloads and what needs no store', (t) => {
  const uncounted = routes.filter(
    ({ access, counted, endpoint, limits = [] }) =>
      ['signIn', 'either', 'account'].includes(access) &&
      counted === undefined &&
      endpoint === undefined &&
      !limits.includes('settings_limit'),
  );
  t.true(uncounted.length > 15);
  t.deepEqual(
    uncounted.filter(({ inTurns }) => !inTurns).map(({ method, path }) => `${method} ${path}`),
    [
      'GET /v1/models',
      'GET /v1/models/*model',
      'GET /v1/account',
      'POST /v1/files',
      'GET /v1/files/:file/content',
      'GET /billing/plan',
    ],
  );
});
