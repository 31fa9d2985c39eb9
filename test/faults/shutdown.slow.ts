import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { oneBackend } from '../stack/plan.ts';
import type { LogLine } from '../stack/service-process.ts';
import { type RunningIngress, type RunningProcess, type Stack, startStack } from '../stack/stack.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { createKeyClient } from '../support/key-client.ts';
import { ask, type RequestEnd, startLoad, unlimitedKey, until } from '../support/load.ts';
import { sized } from '../support/size.ts';
import { openWitnesses, type Witnesses } from '../support/truth/open-witnesses.ts';

const rounds = sized(2, 3);
const clients = 12;
/** Longer than a test waits: what has ended did not wait for its end. */
const endless = { SHUTDOWN_GRACE_MS: '600000' };
const short = { SHUTDOWN_GRACE_MS: '100' };

const parts = new AsyncDisposableStack();
let stack: Stack;
let witnesses: Witnesses;

test.before(async () => {
  const modelServers = { firstTokenMs: 150, tokensPerSecond: 200 };
  stack = parts.use(await startStack({ models: oneBackend, modelServers, workers: 2 }));
  witnesses = parts.use(await openWitnesses(stack));
});
test.after.always(() => parts.disposeAsync());

const url = () => stack.ingresses[0]?.url ?? '';

/** An ingress that is not among those of the stack, because it ends. */
async function leavingIngress(env: Record<string, string>): Promise<RunningIngress> {
  const ingress = await stack.startIngress(env);
  stack.ingresses.pop();
  return ingress;
}

/** Ends the other workers. */
async function onlyWorker(env: Record<string, string>): Promise<RunningProcess> {
  const others = stack.workers.splice(0);
  const worker = await stack.startWorker(env);
  await Promise.all(others.map(({ process }) => process.stop()));
  return worker;
}

async function exits(t: ExecutionContext, ...processes: RunningProcess['process'][]): Promise<void> {
  for (const process of processes) process.kill('SIGTERM');
  for (const process of processes) t.is(await process.exited, 0);
}

/** No client may see a wrong or truncated answer, whichever process is shut down. */
function unharmed(t: ExecutionContext, endings: readonly RequestEnd[]): void {
  t.deepEqual(
    endings.filter(({ kind }) => kind === 'wrong' || kind === 'broken off'),
    [],
  );
}

faultTest(
  test.serial,
  {
    id: '6a',
    done: 'an ingress is stopped (SIGTERM) under load, repeatedly',
    promised: 'every request that it has begun to read is answered',
  },
  async (t, see) => {
    const key = await unlimitedKey(stack, '6a');
    let answered = 0;
    for (let round = 0; round < rounds; round++) {
      const ingress = await leavingIngress(endless);
      const load = startLoad(t, { url: () => ingress.url, keys: [key], name: `round${round}` });
      await until(() => load.endings.length >= clients * 2);
      const unused = connect(Number(new URL(ingress.url).port), '127.0.0.1').on('error', () => {});
      await once(unused, 'connect');
      await exits(t, ingress.process); // without waiting for a connection that has no request
      const endings = await load.stop();

      unharmed(t, endings);
      const read = requestsReadBy(ingress);
      const unanswered = endings.filter(({ kind, id }) => kind === 'no answer' && read.has(id));
      t.deepEqual(unanswered, [], 'a request that was read has an answer');
      t.true(endings.filter(({ kind }) => kind === 'answered').length >= clients * 2);
      answered += endings.filter(({ kind }) => kind === 'answered').length;
    }
    see(`${answered} answers over ${rounds} shutdowns`);
    const { records, contradictions } = await witnesses.agreeOn(t, []);
    see(`${records.size} records, ${contradictions.length} contradictions`);
  },
);

function requestsReadBy({ process }: RunningIngress): Set<unknown> {
  return new Set(process.logs.map(({ clientRequestId }: LogLine) => clientRequestId));
}

faultTest(
  test.serial,
  {
    id: '6b',
    done: 'a worker is stopped (SIGTERM) under load, repeatedly',
    promised: 'every request is answered: the worker finishes it, or another takes it over',
  },
  async (t, see) => {
    const key = await unlimitedKey(stack, '6b');
    const load = startLoad(t, { url, keys: [key], name: 'load' });
    for (let round = 0; round < rounds; round++) {
      const before = load.endings.length;
      await until(() => load.endings.length >= before + clients);
      const [oldest] = stack.workers.splice(0, 1);
      if (oldest !== undefined) await exits(t, oldest.process);
      await stack.startWorker();
    }
    const endings = await load.stop();
    t.deepEqual(
      endings.filter(({ kind }) => kind !== 'answered'),
      [],
    );
    see(`${endings.length} answers over ${rounds} shutdowns`);
    const { records, contradictions } = await witnesses.agreeOn(t, []);
    see(`${records.size} records, ${contradictions.length} contradictions`);
  },
);

faultTest(
  test.serial,
  {
    id: '6c',
    done: "a worker's grace period ends while it has calls in flight",
    promised: 'a request without output is run by another worker; a stream ends with an error frame',
  },
  async (t, see) => {
    const key = await stack.mintKey('6c');
    const leaving = await onlyWorker(short);
    const [server] = stack.modelServers;

    server.fail({ hang: true, times: 1 });
    const whole = ask({ url: url(), key, id: 'held-w' });
    await server.waitForCall(({ state }) => state === 'running');
    server.fail({ endless: true, chunkMs: 10, times: 1 });
    const streamed = ask({ url: url(), key, id: 'held-s' });
    await server.waitForCall(({ state, chunksSent }) => state === 'running' && chunksSent > 2);

    await exits(t, leaving.process);
    t.is((await streamed).kind, 'failed');
    await onlyWorker({});
    t.is((await whole).kind, 'answered');
    see('1 of 1 streams ended with an error frame, 1 of 1 complete responses came from another worker');
  },
);

faultTest(
  test.serial,
  {
    id: '6d',
    done: "an ingress's grace period ends while a client waits",
    promised: '503, and the backend call is cancelled',
  },
  async (t, see) => {
    const leaving = await leavingIngress(short);
    const key = await stack.mintKey('6d');
    const [server] = stack.modelServers;
    server.fail({ hang: true, times: 1 });
    const held = ask({ url: leaving.url, key, id: 'held-w' });
    const { id } = await server.waitForCall(({ state }) => state === 'running');
    await exits(t, leaving.process);
    const ending = await held;
    t.like(ending, { kind: 'refused', status: 503 });
    // No client waits any more, so the call of the model server is cancelled.
    t.is((await server.waitForCall((call) => call.id === id && call.state !== 'running')).state, 'aborted');
    see('1 of 1 got 503, and its call was cancelled');
  },
);

test.serial('a stopping ingress serves requests for SHUTDOWN_DELAY_MS, and is not ready', async (t) => {
  const key = await stack.mintKey('delayed');
  const states = async (ingress: RunningIngress) => {
    const response = await fetch(`${ingress.operationsUrl}/readyz`);
    return [response.status, ((await response.json()) as { state: string }).state];
  };
  const staying = await leavingIngress({ SHUTDOWN_DELAY_MS: '600000' });
  t.deepEqual(await states(staying), [200, 'ready']);
  staying.process.kill('SIGTERM');
  await until(() => staying.process.logs.some(({ msg }) => msg?.startsWith('shutting down')));
  t.deepEqual(await states(staying), [503, 'stopping']);
  for (const id of ['delayed-1', 'delayed-2-s']) {
    t.like(await ask({ url: staying.url, key, id }), { kind: 'answered' });
  }
  staying.process.kill('SIGKILL');

  const leaving = await leavingIngress({ SHUTDOWN_DELAY_MS: '500' });
  const load = startLoad(t, { url: () => leaving.url, keys: [key], name: 'delay' });
  await until(() => load.endings.length >= clients);
  await exits(t, leaving.process);
  unharmed(t, await load.stop());
});

test.serial(
  'a stopping worker reports how many jobs it still has, during its grace period, which may be as long as a request',
  async (t) => {
    const key = await stack.mintKey('reported');
    const worker = await onlyWorker(endless);
    const [server] = stack.modelServers;
    server.fail({ endless: true, chunkMs: 10, times: 2 });
    const held = ['one-s', 'two-s'].map((id) => ask({ url: url(), key, id }));
    const streams = () => server.calls().filter(({ state, chunksSent }) => state === 'running' && chunksSent > 2);
    await until(() => streams().length === 2);
    const readiness = async () => {
      const response = await fetch(`${worker.operationsUrl}/readyz`);
      const { ready, state, running } = (await response.json()) as Record<string, unknown>;
      return [response.status, ready, state, running];
    };
    t.deepEqual(await readiness(), [200, true, 'ready', 2]);
    worker.process.kill('SIGTERM');
    while ((await readiness())[0] !== 503) await sleep(20);
    t.deepEqual(await readiness(), [503, false, 'stopping', 2]);
    worker.process.kill('SIGKILL');
    await onlyWorker({});
    t.deepEqual(
      (await Promise.all(held)).map(({ kind }) => kind),
      ['failed', 'failed'],
    );
  },
);

test.serial('an ingress that stops has stored when keys were last used, to the minute', async (t) => {
  const leaving = await leavingIngress({});
  const startedAt = Date.now();
  const through = createKeyClient(stack, { url: () => leaving.url });
  const key = await through.newKey('used');
  const guest = String((await through.guest('device-of-ann')).body.key);
  t.like(await through.infer(key), { status: 200 });
  t.like(await through.infer(guest), { status: 200 });
  const endedAt = Date.now();
  await exits(t, leaving.process);

  const keys = createKeyClient(stack);
  const device = `device:${createHash('sha256').update('device-of-ann').digest('hex')}`;
  const { body } = await keys.account(device);
  const [listed] = await keys.list('used');
  const [ofDevice] = body.keys as { last_used_at?: number }[]; // a response of the service itself
  for (const at of [Date.parse(listed?.lastUsedAt ?? ''), (ofDevice?.last_used_at ?? 0) * 1_000]) {
    t.is(at % 60_000, 0);
    t.true(at > startedAt - 60_000 && at <= endedAt, `${at}`);
  }
  t.is(body.account, device);
  const firstSeenAt = Date.parse(String(body.createdAt));
  t.true(firstSeenAt >= startedAt && firstSeenAt <= endedAt);
});

for (const signal of ['SIGKILL', 'SIGSTOP'] as const) {
  test.serial(
    `processes exit on SIGTERM while Redis is away (${signal}), whether they were ready before or not`,
    async (t) => {
      const before = stack.started().length;
      await Promise.all([
        leavingIngress({ SHUTDOWN_GRACE_MS: '500' }),
        stack.startWorker({ SHUTDOWN_GRACE_MS: '500' }),
      ]);
      stack.workers.pop();
      await stack.redis?.kill(signal);
      const starting = [leavingIngress({}), stack.startWorker()].map((start) => start.catch(() => 'ended'));
      const started = () => stack.started().slice(before);
      await until(() => started().every(({ logs }) => logs.length > 0));
      await exits(t, ...started());
      t.deepEqual(await Promise.all(starting), ['ended', 'ended']);
      if (signal === 'SIGKILL') await stack.redis?.restart();
      else await stack.redis?.kill('SIGCONT');
    },
  );
}
