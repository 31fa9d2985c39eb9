import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { type Dispatcher, errors } from 'undici';
import { nextTurn } from '../../../shared/concurrency/in-turn.ts';
import { BackendError } from '../../../shared/endpoints/answers/backend-error.ts';
import { classifyFailure, exchange, readRetryAfter } from '../../../workers/backend-client/exchange.ts';

test('others have a turn after 64 KiB of an answer that arrives fast', async (t) => {
  const calls: string[] = [];
  const controller = {
    pause: () => calls.push('pause'),
    resume: () => calls.push('resume'),
  } as unknown as Dispatcher.DispatchController;
  let handler: Dispatcher.DispatchHandler = {};
  const taken = exchange<number>({
    dispatcher: {
      dispatch(_, given) {
        handler = given;
        return true;
      },
    },
    request: { path: '/', method: 'POST' },
    signal: AbortSignal.timeout(30_000),
    readerOf: (_, { succeed, fail }) => {
      let bytesTaken = 0;
      return {
        take(bytes) {
          bytesTaken += bytes.length;
        },
        end: () => succeed(bytesTaken),
        breakOff: fail,
      };
    },
  });
  const piece = Buffer.alloc(16_384);
  const arrive = (pieces: number) => {
    for (let index = 0; index < pieces; index++) handler.onResponseData?.(controller, piece);
  };
  handler.onRequestStart?.(controller, {});
  handler.onResponseStart?.(controller, 200, {});
  arrive(3);
  t.deepEqual(calls, []);
  arrive(1);
  t.deepEqual(calls, ['pause']);
  await nextTurn();
  t.deepEqual(calls, ['pause', 'resume']);
  await sleep(110);
  arrive(4);
  t.deepEqual(calls, ['pause', 'resume'], 'a stream does not wait');
  arrive(1);
  handler.onResponseEnd?.(controller, {});
  t.is(await taken, 9 * piece.length);
});

test('classifies a failed connection by its kind, and keeps the cause for the log', (t) => {
  const table = [
    [new errors.ConnectTimeoutError('x'), 'connect_timeout'],
    [new errors.HTTPParserError('x'), 'unreadable'],
    [new errors.ResponseContentLengthMismatchError('x'), 'unreadable'],
    [new errors.SocketError('x'), 'connection'],
    [Object.assign(new Error('x'), { code: 'ECONNREFUSED' }), 'connection'],
    ['not even an error', 'connection'],
  ] as const;
  for (const [failure, fault] of table) {
    const error = classifyFailure(failure);
    t.true(error instanceof BackendError);
    t.is(error.fault, fault);
    t.is(error.cause, failure);
  }
});

test('a classified failure is returned unchanged', (t) => {
  const error = new BackendError('idle_timeout', 'nothing for 5 ms');
  t.is(classifyFailure(error), error);
});

const now = Date.UTC(2026, 0, 1);
const retryAfter: [string, Record<string, string>, number | undefined][] = [
  ['seconds', { 'retry-after': '7' }, 7_000],
  ['many seconds', { 'retry-after': '30' }, 30_000],
  ['no wait', { 'retry-after': '0' }, undefined],
  ['a date', { 'retry-after': new Date(now + 30_000).toUTCString() }, 30_000],
  ['milliseconds', { 'retry-after-ms': '250', 'retry-after': '1' }, 250],
  ['a quarter of a second at least', { 'retry-after-ms': '0.001' }, 250],
  ['a date that is nearly now', { 'retry-after': new Date(now).toUTCString(), 'retry-after-ms': '0' }, undefined],
  ['a minute at most', { 'retry-after': '86400' }, 60_000],
  ['a past date', { 'retry-after': new Date(now - 30_000).toUTCString() }, undefined],
  ['not a time', { 'retry-after': 'soon' }, undefined],
  ['a negative time', { 'retry-after': '-5', 'retry-after-ms': '-5' }, undefined],
  ['no header', {}, undefined],
];
for (const [title, headers, retryAfterMs] of retryAfter) {
  test(`reads the pause that a backend asks for: ${title}`, (t) => {
    t.is(readRetryAfter(headers, now), retryAfterMs);
  });
}
