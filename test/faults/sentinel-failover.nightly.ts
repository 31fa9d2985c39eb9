import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { startRedisSentinel } from '../stack/redis-sentinel.ts';
import { startStack } from '../stack/stack.ts';
import { sendFrom } from '../support/faults/cluster-load.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { judgeAll } from '../support/faults/judge-cluster.ts';
import { openWitnesses } from '../support/truth/open-witnesses.ts';

faultTest(
  test,
  {
    id: '27g',
    done: 'the Redis master is killed under load, and Sentinel promotes its replica',
    promised:
      'no 503 takes longer than 5 s; all are answered again within 10 s of the promotion; nothing is lost or counted twice',
  },
  async (t, see) => {
    t.timeout(240_000);
    const parts = new AsyncDisposableStack();
    t.teardown(() => parts.disposeAsync());
    const directory = await mkdtemp(join(tmpdir(), 'sentinel-load-'));
    parts.defer(() => rm(directory, { recursive: true, force: true }));
    const sentinel = parts.use(await startRedisSentinel({ directory }));
    const stack = parts.use(
      await startStack({
        ...{ redisUrl: sentinel.url, ingresses: 2, workers: 2, timeouts: { queue_ms: 10_000, request_ms: 60_000 } },
        modelServers: { firstTokenMs: 30, tokensPerSecond: 300 },
      }),
    );
    const witnesses = parts.use(await openWitnesses(stack));
    const models = ['small-chat', 'medium-chat', 'large-chat'].map((name) => ({ name }));
    const load = sendFrom(stack, { keys: witnesses.keys.map((key) => ({ key })), models });
    parts.defer(load.stop);
    await sleep(5_000);
    const master = await sentinel.master();
    const from = performance.now();
    await master.kill('SIGKILL');
    await sentinel.untilReplaced(master);
    const to = performance.now();
    see(`the replica was master after ${((to - from) / 1_000).toFixed(1)} s`);
    await sleep(12_000);
    await load.stop();
    await judgeAll(t, see, { ...load, witnesses, fault: { from, to } });
    await parts.disposeAsync();
  },
);
