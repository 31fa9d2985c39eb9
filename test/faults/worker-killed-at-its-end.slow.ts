import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { Agent } from 'undici';
import { oneBackend } from '../stack/plan.ts';
import { type RunningProcess, type Stack, startStack } from '../stack/stack.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { addressIn, startTcpProxy } from '../support/tcp-proxy.ts';
import { type Asked, ask } from '../support/truth/ask.ts';
import { openWitnesses } from '../support/truth/open-witnesses.ts';

/** A new worker sends a script as it stands at first; this is BullMQ's that takes a finished job out of its queue. */
const finishing = 'Move job from active to a finished status';
/** Only the settling of an answered request says this, once of the request and once of its one attempt. */
const settling = '"outcome":"completed"';

async function openScene(t: ExecutionContext, env: (stack: Stack) => Record<string, string> = () => ({})) {
  const parts = new AsyncDisposableStack();
  t.teardown(() => parts.disposeAsync());
  const stack = parts.use(await startStack({ models: oneBackend, workers: 0 }));
  const witnesses = parts.use(await openWitnesses(stack));
  const proxy = parts.use(await startTcpProxy(addressIn(stack.redisUrl)));
  const victim = await stack.startWorker({ REDIS_URL: `redis://127.0.0.1:${proxy.port}`, ...env(stack) });
  const agent = parts.adopt(new Agent({ headersTimeout: 0 }), (opened) => opened.destroy());
  return { stack, witnesses, proxy, victim, agent };
}

/** Its jobs are another's within 15 s, and that one finds out how they stand. */
async function dies({ stack, victim }: { stack: Stack; victim: RunningProcess }, jobs: number): Promise<number> {
  victim.process.kill('SIGKILL');
  const killedAt = performance.now();
  stack.workers.splice(stack.workers.indexOf(victim), 1);
  const other = await stack.startWorker();
  const found = new RegExp(`^svc_jobs_not_started_total\\{pool="default",reason="settled"\\} ${jobs}$`, 'm');
  while (!found.test(await (await fetch(`${other.operationsUrl}/metrics`)).text())) await sleep(100);
  return Math.round(performance.now() - killedAt);
}

faultTest(
  test,
  {
    id: '3a',
    done: 'a worker is killed (SIGKILL) when it has answered, and before its job is taken out of the queue',
    promised: 'the client has its answer; the job finds that it was settled, calls no backend and is charged once',
  },
  async (t, see) => {
    t.timeout(120_000);
    const scene = await openScene(t);
    const { proxy, witnesses, agent } = scene;
    const reached = proxy.holdBefore(finishing);
    const asked = await ask(witnesses.wish('Who is the last?'), agent);
    await reached;
    t.is(asked.ending, 'answered');
    const foundMs = await dies(scene, 1);
    await chargedOnce(t, scene, [asked]);
    see(`1 of 1 answered; its job was found settled ${foundMs} ms after the kill; 1 call, 1 record`);
  },
);

faultTest(
  test,
  {
    id: '3b',
    done: 'a worker is killed (SIGKILL) when requests were settled, and before it could say so to their clients',
    promised: 'they are told by 503, or by an error frame; no backend is called again, and each is charged once',
  },
  async (t, see) => {
    t.timeout(120_000);
    // Where replies have a Redis of their own, the last word waits until the settling was answered.
    const scene = await openScene(t, ({ redisUrl }) => ({ REPLY_REDIS_URL: redisUrl }));
    const { stack, proxy, witnesses, agent } = scene;
    // Both have started before the first is settled, which waits for the other.
    stack.modelServers[0].fail({ latencyMs: 1_500 });
    const sent = proxy.swallow([{ text: settling, count: 2 * 2 }]);
    const asking = [false, true].map((stream) => ask({ ...witnesses.wish(`Streamed: ${stream}?`), stream }, agent));
    await sent;
    const foundMs = await dies(scene, 2);
    const asked = await Promise.all(asking);
    t.like(asked[0], { ending: 'refused', status: 503, code: 'SERVICE_UNAVAILABLE' });
    t.is(asked[1]?.ending, 'interrupted');
    await chargedOnce(t, scene, asked);
    see(`1 told by 503 and 1 by an error frame, ${foundMs} ms after the kill; 2 calls, 2 records`);
  },
);

type Scene = Pick<Awaited<ReturnType<typeof openScene>>, 'witnesses'>;

async function chargedOnce(t: ExecutionContext, { witnesses }: Scene, asked: readonly Asked[]): Promise<void> {
  const { calls, records } = await witnesses.agreeOn(t, asked);
  t.is(calls.length, asked.length);
  t.is(records.size, asked.length);
  for (const { outcome, chargedTokens } of records.values()) {
    t.is(outcome, 'completed');
    t.true(chargedTokens > 0);
  }
}
