import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { Agent } from 'undici';
import { type RunningProcess, type Stack, startStack } from '../stack/stack.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { serviceMetrics } from '../support/service-metric.ts';
import { ask } from '../support/truth/ask.ts';
import { openWitnesses } from '../support/truth/open-witnesses.ts';

/** A job may be taken from a dead worker twice (`maxStalledCount` in shared/jobs/queues.ts). */
const workersKilled = 3;

faultTest(
  test,
  {
    id: '4',
    done: 'a request kills every worker that takes it',
    promised: 'it ends with an error (500) after its third worker and costs nothing; no other request is affected',
  },
  async (t, see) => {
    t.timeout(180_000);
    await using stack = await startStack({ workers: 2, timeouts: { first_token_ms: 100_000 } });
    await using witnesses = await openWitnesses(stack);
    const { wish } = witnesses;
    const agent = new Agent({ headersTimeout: 0 });
    t.teardown(() => agent.destroy());
    for (const server of stack.modelServers) {
      server.fail({ hang: true }, 'small-chat');
      server.fail({ latencyMs: 1_000 }, 'medium-chat');
    }
    const calls = () => stack.modelServers.flatMap((server) => server.calls());

    const askedAt = performance.now();
    const deadly = ask(wish('Which request is deadly?'), agent);
    const others = [];
    for (let killed = 0; killed < workersKilled; killed += 1) {
      while (calls().filter(({ model }) => model === 'small-chat').length === killed) await sleep(20);
      const victim = await workerThatRuns(stack);
      const asking = Array.from({ length: 6 }, (_, index) =>
        ask({ ...wish(`Other ${killed} ${index}?`), model: 'medium-chat' }, agent),
      );
      while (calls().filter(({ state, model }) => model === 'medium-chat' && state === 'running').length < 6)
        await sleep(5);
      victim.process.kill('SIGKILL');
      stack.workers.splice(stack.workers.indexOf(victim), 1);
      await stack.startWorker();
      others.push(...(await Promise.all(asking)));
    }
    const dead = await deadly;
    see(`it ended after ${Math.round((performance.now() - askedAt) / 1_000)} s`);
    t.like(dead, { ending: 'refused', status: 500, code: 'INTERNAL_ERROR' });
    t.deepEqual(
      others.filter(({ ending }) => ending !== 'answered'),
      [],
    );

    const evidence = await witnesses.agreeOn(t, [dead, ...others]);
    t.is(evidence.records.size, others.length + 1);
    const record = evidence.records.get(dead.requestId ?? '');
    t.like(record, { outcome: 'failed', chargedTokens: 0 });
    t.deepEqual(
      record?.attempts.map(({ outcome }) => outcome),
      Array(workersKilled).fill('lost'),
    );
  },
);

/** The worker that runs the one job left, once all others are idle. */
async function workerThatRuns({ workers }: Stack): Promise<RunningProcess> {
  while (true) {
    const running = await Promise.all(workers.map((each) => serviceMetrics(each, ['svc_jobs_running'])));
    const busy = workers.filter((_, index) => running[index]?.[0] === 1);
    if (running.flat().reduce((sum, jobs) => sum + jobs, 0) === 1 && busy[0] !== undefined) return busy[0];
    await sleep(50);
  }
}
