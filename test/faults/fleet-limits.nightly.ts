import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import type { Call } from '../stack/model-server.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { chat } from '../support/chat.ts';
import { faultTest, type See } from '../support/faults/fault-test.ts';
import { unlimitedKey } from '../support/load.ts';
import { serviceMetrics } from '../support/service-metric.ts';

const model = 'one-server';
const clients = 200;
const callMs = 400;
const allInUseWithinMs = 60_000;
const killEveryMs = 7_000;

/** A backend with a limit for all workers together, while workers come and go. */
function openFleet(limit: number, workers: number): Promise<Stack> {
  return startStack({
    ...{ workers, timeouts: { queue_ms: 300_000 } },
    models: { [model]: { tier: 'guest', pool: 'default', backends: ['onprem-a'] } },
    backends: { 'onprem-a': { requests_at_once: limit } },
    modelServers: { firstTokenMs: callMs, splitBytes: false },
  });
}

/** Clients that send one question after another until they are stopped. Counts the statuses of the responses. */
async function askOnAndOn(stack: Stack) {
  const url = stack.ingresses[0]?.url ?? '';
  const keys = await Promise.all(Array.from({ length: 8 }, (_, index) => unlimitedKey(stack, `account${index}`)));
  const statuses = new Map<number, number>();
  let isStopped = false;
  async function client(index: number): Promise<void> {
    for (let asked = 0; !isStopped; asked++) {
      const key = keys[index % keys.length] ?? '';
      const { status } = await chat({ url, key, model, question: `Client ${index}, ${asked}?` });
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  }
  const asking = Promise.all(Array.from({ length: clients }, (_, index) => client(index)));
  return {
    statuses,
    async stop(): Promise<void> {
      isStopped = true;
      await asking;
    },
  };
}

const callsOf = (stack: Stack) => stack.modelServers[0].calls();
const mostAtOnce = (calls: readonly Call[]) => Math.max(...calls.map(({ atOnce }) => atOnce));

/** Resolves when the backend has as many calls as it may have, of which one started after now. */
async function allInUse(stack: Stack, limit: number): Promise<void> {
  const since = Date.now();
  while (!callsOf(stack).some(({ startedAt, atOnce }) => startedAt > since && atOnce === limit)) {
    if (Date.now() > since + allInUseWithinMs) throw new Error(`never ${limit} calls at once`);
    await sleep(100);
  }
}

function see200(see: See, statuses: ReadonlyMap<number, number>): number {
  const answered = statuses.get(200) ?? 0;
  const others = [...statuses].filter(([status]) => status !== 200).map(([status, count]) => `${count} × ${status}`);
  see(`${answered} answered${others.length > 0 ? `, ${others.join(', ')}` : ''}`);
  return answered;
}

/** The number of workers becomes 1, 8 and 2, and one is killed every few seconds, while every client waits. */
async function comeAndGo(t: ExecutionContext, see: See, limit: number): Promise<void> {
  t.timeout(300_000);
  await using stack = await openFleet(limit, 1);
  const asking = await askOnAndOn(stack);
  await sleep(5_000);
  await Promise.all(Array.from({ length: 7 }, () => stack.startWorker()));
  for (let kills = 0; kills < 6; kills++) {
    await sleep(killEveryMs);
    const [killed] = stack.workers.splice(kills % 2, 1);
    killed?.process.kill('SIGKILL');
    await stack.startWorker();
  }
  const leaving = stack.workers.splice(0, 6);
  await Promise.all(leaving.map(({ process }) => process.stop()));
  for (let kills = 0; kills < 3; kills++) {
    await sleep(killEveryMs);
    const [killed] = stack.workers.splice(0, 1);
    killed?.process.kill('SIGKILL');
    await stack.startWorker();
  }
  await allInUse(stack, limit);
  await asking.stop();
  const most = mostAtOnce(callsOf(stack));
  see(`at most ${most} of ${limit} at once, also after the last kill`);
  t.is(most, limit);
  t.true(see200(see, asking.statuses) > 0);
  t.deepEqual([...asking.statuses.keys()], [200]);
}

faultTest(
  test.serial,
  {
    id: '26a',
    done: 'the number of workers becomes 1, 8 and 2, and one is killed (SIGKILL) every 7 s, while 200 clients call a backend with 24 requests at once',
    promised: 'the backend never has more at once, and all of that again after the last kill; every client is answered',
  },
  (t, see) => comeAndGo(t, see, 24),
);

faultTest(
  test.serial,
  {
    id: '26b',
    done: 'the same with 3 requests at once, fewer than there are workers',
    promised: 'the backend never has more at once, and all of that again after the last kill; every client is answered',
  },
  (t, see) => comeAndGo(t, see, 3),
);

faultTest(
  test.serial,
  {
    id: '26c',
    done: 'Redis is unavailable for 2 s and for 20 s, while 200 clients call a backend with 12 requests at once through 4 workers',
    promised: 'the backend never has more at once, and all of that again when it is back',
  },
  async (t, see) => {
    t.timeout(300_000);
    const limit = 12;
    await using stack = await openFleet(limit, 4);
    const asking = await askOnAndOn(stack);
    await sleep(4_000);
    for (const awayMs of [2_000, 20_000]) {
      await stack.redis?.stop();
      await sleep(awayMs);
      await stack.redis?.restart();
      await allInUse(stack, limit);
    }
    await asking.stop();
    const most = mostAtOnce(callsOf(stack));
    see(`at most ${most} of ${limit} at once, also each time after it was back`);
    see200(see, asking.statuses);
    t.is(most, limit);
  },
);

faultTest(
  test.serial,
  {
    id: '26d',
    done: 'a worker is frozen (SIGSTOP) for 10 s with calls in flight, while 200 clients call a backend with 12 requests at once through 4 workers',
    promised:
      'the backend has at most the calls of the frozen worker in addition, and only until that worker continues',
  },
  async (t, see) => {
    t.timeout(300_000);
    const limit = 12;
    await using stack = await openFleet(limit, 4);
    const asking = await askOnAndOn(stack);
    await sleep(6_000);
    stack.modelServers[0].fail({ latencyMs: 12_000, times: limit });
    await sleep(2_000);
    const [frozen] = stack.workers;
    if (frozen === undefined) return t.fail();
    const [itsCalls = 0] = await serviceMetrics(frozen, ['svc_backend_calls']);
    frozen.process.kill('SIGSTOP');
    const frozenAt = Date.now();
    await sleep(10_000);
    frozen.process.kill('SIGCONT');
    await sleep(10_000);
    await asking.stop();
    const calls = callsOf(stack);
    const before = mostAtOnce(calls.filter(({ startedAt }) => startedAt < frozenAt));
    const after = mostAtOnce(calls.filter(({ startedAt }) => startedAt > frozenAt + 14_000));
    see(
      `at most ${before} of ${limit} before, ${mostAtOnce(calls)} while one with ${itsCalls} was frozen, ${after} after that`,
    );
    t.is(before, limit);
    t.true(mostAtOnce(calls) > limit, 'others have its share');
    t.true(mostAtOnce(calls) <= limit + itsCalls);
    t.is(after, limit);
    see200(see, asking.statuses);
  },
);
