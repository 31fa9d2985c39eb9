import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import type { Dispatcher } from 'undici';
import { nextTurn } from '../../../shared/turns/in-turn.ts';
import { exchange } from '../../../workers/backend-client/exchange.ts';

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
