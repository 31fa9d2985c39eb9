import test from 'ava';
import type { Dispatcher } from 'undici';
import { exchange } from '../../../workers/exchange/exchange.ts';

test('others have a turn after 256 KiB of an answer, however fast it arrives', async (t) => {
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
  const piece = Buffer.alloc(65_536);
  handler.onRequestStart?.(controller, {});
  handler.onResponseStart?.(controller, 200, {});
  for (let index = 0; index < 3; index++) handler.onResponseData?.(controller, piece);
  t.deepEqual(calls, []);
  handler.onResponseData?.(controller, piece);
  t.deepEqual(calls, ['pause']);
  await new Promise(setImmediate);
  t.deepEqual(calls, ['pause', 'resume']);
  handler.onResponseData?.(controller, piece);
  handler.onResponseEnd?.(controller, {});
  t.is(await taken, 5 * piece.length);
});
