import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { sendCancellation } from '../../shared/jobs/control-messages.ts';
import { connectForWork } from '../../shared/redis/connections.ts';
import { controlStreamKey } from '../../shared/redis/keys.ts';
import { listenForControl, waitForControl } from '../../workers/listen-for-control.ts';
import { createPieceReaders } from '../../workers/replies/send-pieces.ts';
import { type ClusterSide, openClusterSide } from '../support/cluster-side.ts';
import { recordedLog } from '../support/recorded-log.ts';

let side: ClusterSide;

test.before(async () => {
  side = await openClusterSide();
});
test.after.always(() => side?.[Symbol.asyncDispose]());

test('a worker starts without its control stream while its node is down, and gets cancellations when it is back', async (t) => {
  t.timeout(60_000);
  const redis = await side.connect(t, 'work');
  const workerId = randomUUID();
  const node = await side.cluster.holderOf(controlStreamKey(workerId));
  const { log, lines } = recordedLog();
  const shutdown = new AbortController();
  const cancelled: string[] = [];
  await node.kill('SIGKILL');
  await using inbox = listenForControl({
    connectReader: () => connectForWork(side.cluster.url, log),
    ...{
      redis,
      workerId,
      log,
      pieceReaders: createPieceReaders(),
      supervisor: () => undefined,
      drainer: () => undefined,
    },
    queues: () => ({ cancel: (request) => void cancelled.push(request) }),
  });
  const startedAt = performance.now();
  await waitForControl(inbox, { redis, shutdown: shutdown.signal, log });
  const waitedMs = performance.now() - startedAt;
  t.true(waitedMs > 4_000, `${waitedMs} ms`);
  t.is(lines.filter(({ message }) => message.includes('control stream')).length, 1);
  await t.throwsAsync(waitForControl(inbox, { redis, shutdown: AbortSignal.abort(new Error('stops')), log }), {
    message: 'stops',
  });
  await node.restart();
  await side.cluster.untilWhole();
  await waitForControl(inbox, { redis, shutdown: shutdown.signal, log });
  await sendCancellation(redis, controlStreamKey(workerId), 'req_1');
  while (cancelled.length === 0) await sleep(10);
  t.deepEqual(cancelled, ['req_1']);
});
