import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { Agent } from 'undici';
import { oneBackend } from '../stack/plan.ts';
import { type RunningProcess, type Stack, startStack } from '../stack/stack.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { addressIn, startTcpProxy } from '../support/tcp-proxy.ts';
import { type Asked, ask } from '../support/truth/ask.ts';
import { openWitnesses } from '../support/truth/open-witnesses.ts';

/** A new worker sends the text of a script at first. This is the script of BullMQ that removes a finished job from its queue. */
const finishing = 'Move job from active to a finished status';
/** Only settling an answered request sends this, once for the request and once for its one attempt. */
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

/** Kills the worker. Another takes its jobs within 15 s and finds that they are settled. Returns the time in milliseconds. */
async function dies({ stack, victim }: { stack: Stack; victim: RunningProcess }, jobs: number): Promise<number> {
  victim.process.kill('SIGKILL');
  const killedAt = performance.now();
  stack.workers.splice(stack.workers.indexOf(victim), 1);
  const other = await stack.startWorker();
  const found = new RegExp(
    `^svc_jobs_not_started_total\\{pool="default",endpoint="/v1/chat/completions",reason="settled"\\} ${jobs}$`,
    'm',
  );
  while (!found.test(await (await fetch(`${other.operationsUrl}/metrics`)).text())) await sleep(100);
  return Math.round(performance.now() - killedAt);
}

faultTest(
  test,
  {
    id: '3a',
    done: 'a worker is killed (SIGKILL) after it has answered, and before its job is removed from the queue',
    promised: 'the client has its answer; the job is found settled, calls no backend and is charged once',
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
    done: 'a worker is killed (SIGKILL) after requests were settled, and before it could notify their clients',
    promised: 'they get 503, or an error frame; no backend is called again, and each is charged once',
  },
  async (t, see) => {
    t.timeout(120_000);
    // If replies have their own Redis, the last reply waits until the settling was confirmed.
    const scene = await openScene(t, ({ redisUrl }) => ({ REPLY_REDIS_URL: redisUrl }));
    const { stack, proxy, witnesses, agent } = scene;
    // Both have started before the first is settled, because it waits for the other.
    stack.modelServers[0].fail({ latencyMs: 1_500 });
    const sent = proxy.swallow([{ text: settling, count: 2 * 2 }]);
    const asking = [false, true].map((stream) => ask({ ...witnesses.wish(`Streamed: ${stream}?`), stream }, agent));
    await sent;
    const foundMs = await dies(scene, 2);
    const asked = await Promise.all(asking);
    t.like(asked[0], { ending: 'refused', status: 503, code: 'SERVICE_UNAVAILABLE' });
    t.is(asked[1]?.ending, 'interrupted');
    await chargedOnce(t, scene, asked);
    see(`1 got 503 and 1 an error frame, ${foundMs} ms after the kill; 2 calls, 2 records`);
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
