import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { Agent } from 'undici';
import { type RunningProcess, type Stack, startStack } from '../stack/stack.ts';
import { everyForm } from '../support/client-forms/every-form.ts';
import { everyEndpoint } from '../support/every-endpoint.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { addressIn, startTcpProxy } from '../support/tcp-proxy.ts';
import { type AskedRequest, ask } from '../support/truth/ask.ts';
import { openWitnesses } from '../support/truth/open-witnesses.ts';

/** A new worker sends the text of a script at first. This is the one that removes completed jobs from their queue. */
const finishing = 'Removes completed jobs from their queue';
/** Only settling an answered request sends this, once. */
const settling = '"outcome":"completed"';
const streamed = everyForm.filter(({ hasStreams }) => hasStreams);

async function openScene(t: ExecutionContext, env: (stack: Stack) => Record<string, string> = () => ({})) {
  const parts = new AsyncDisposableStack();
  t.teardown(() => parts.disposeAsync());
  const models = { 'small-chat': { ...everyEndpoint.everything, backends: ['onprem-a'] } };
  const stack = parts.use(await startStack({ models, workers: 0 }));
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
  while ((await foundSettled(other)) !== jobs) await sleep(100);
  return Math.round(performance.now() - killedAt);
}

async function foundSettled({ operationsUrl }: RunningProcess): Promise<number> {
  const metrics = await (await fetch(`${operationsUrl}/metrics`)).text();
  const counts = metrics.matchAll(/^svc_jobs_not_started_total\{.*reason="settled"\} (\d+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
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
    promised:
      'they get 503, or an error frame, and no event that says that a stream is complete; no backend is called again, and each is charged once',
  },
  async (t, see) => {
    t.timeout(120_000);
    // If replies have their own Redis, the last reply waits until the settling was confirmed.
    const scene = await openScene(t, ({ redisUrl }) => ({ REPLY_REDIS_URL: redisUrl }));
    const { stack, proxy, witnesses, agent } = scene;
    const [server] = stack.modelServers;
    server.fail({ untilHealed: true });
    const sent = proxy.swallow([{ text: settling, count: 1 + streamed.length }]);
    const whole = ask(witnesses.wish('Whole?'), agent);
    const streams = streamed.map((form) =>
      ask({ ...witnesses.wish(`Streamed at ${form.path}?`), form, stream: true, includeUsage: true }, agent),
    );
    // All have started before the first is settled.
    while (server.calls().length < 1 + streamed.length) await sleep(20);
    server.heal();
    await sent;
    await sleep(500); // what the worker sends without waiting has arrived
    const foundMs = await dies(scene, 1 + streamed.length);
    const asked = await Promise.all([whole, ...streams]);
    t.like(asked[0], { ending: 'refused', status: 503, code: 'SERVICE_UNAVAILABLE' });
    for (const { ending, path } of asked.slice(1)) t.is(ending, 'interrupted', path);
    await chargedOnce(t, scene, asked);
    see(
      `1 got 503 and ${streamed.length} an error frame, ${foundMs} ms after the kill; ${asked.length} calls and records`,
    );
  },
);

type Scene = Pick<Awaited<ReturnType<typeof openScene>>, 'witnesses'>;

async function chargedOnce(t: ExecutionContext, { witnesses }: Scene, asked: readonly AskedRequest[]): Promise<void> {
  const { calls, records } = await witnesses.agreeOn(t, asked);
  t.is(calls.length, asked.length);
  t.is(records.size, asked.length);
  for (const { outcome, chargedTokens } of records.values()) {
    t.is(outcome, 'completed');
    t.true(chargedTokens > 0);
  }
}
