import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { oneBackend } from '../stack/plan.ts';
import type { LogLine } from '../stack/service-process.ts';
import { type RunningIngress, type RunningProcess, type Stack, startStack } from '../stack/stack.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { ask, type Ending, startLoad, unlimitedKey, until } from '../support/load.ts';
import { sized } from '../support/size.ts';
import { openWitnesses } from '../support/truth/open-witnesses.ts';

const rounds = sized(3);
const clients = 12;

/** No client may see a wrong or truncated answer, whichever process is shut down. */
function unharmed(t: ExecutionContext, endings: readonly Ending[]): void {
  t.deepEqual(
    endings.filter(({ kind }) => kind === 'wrong' || kind === 'broken off'),
    [],
  );
}

faultTest(
  test,
  {
    id: '6a',
    done: 'an ingress is stopped (SIGTERM) under load, repeatedly',
    promised: 'every request that it has begun to read is answered',
  },
  async (t, see) => {
    await using stack = await startStack({ modelServers: { firstTokenMs: 150, tokensPerSecond: 200 } });
    await using witnesses = await openWitnesses(stack);
    const key = await unlimitedKey(stack);
    let answered = 0;
    for (let round = 0; round < rounds; round++) {
      const ingress = await stack.startIngress();
      const load = startLoad({ url: () => ingress.url, key, name: `round${round}` });
      await until(() => load.endings.length >= clients * 2);
      ingress.process.kill('SIGTERM');
      t.is(await ingress.process.exited, 0);
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
  test,
  {
    id: '6b',
    done: 'a worker is stopped (SIGTERM) under load, repeatedly',
    promised: 'every request is answered: the worker finishes it, or another takes it over',
  },
  async (t, see) => {
    await using stack = await startStack({ workers: 2, modelServers: { firstTokenMs: 150, tokensPerSecond: 200 } });
    await using witnesses = await openWitnesses(stack);
    const key = await unlimitedKey(stack);
    const load = startLoad({ url: () => stack.ingresses[0]?.url ?? '', key, name: 'load' });
    for (let round = 0; round < rounds; round++) {
      const before = load.endings.length;
      await until(() => load.endings.length >= before + clients);
      const [oldest] = stack.workers.splice(0, 1);
      oldest?.process.kill('SIGTERM');
      t.is(await oldest?.process.exited, 0);
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
  test,
  {
    id: '6c',
    done: "a worker's grace period ends while it has calls in flight",
    promised: 'a request without output is run by another worker; a stream ends with an error frame',
  },
  async (t, see) => {
    await using stack = await startStack({ models: oneBackend, workers: 0, env: { SHUTDOWN_GRACE_MS: '100' } });
    const key = await stack.mintKey('alice');
    const first = await stack.startWorker();
    const url = stack.ingresses[0]?.url ?? '';
    const [server] = stack.modelServers;

    server.fail({ hang: true, times: 1 });
    const whole = ask({ url, key, id: 'held-w' });
    await server.waitForCall(({ state }) => state === 'running');
    server.fail({ endless: true, chunkMs: 10, times: 1 });
    const streamed = ask({ url, key, id: 'held-s' });
    await server.waitForCall(({ chunksSent }) => chunksSent > 2);

    first.process.kill('SIGTERM');
    t.is((await streamed).kind, 'failed');
    t.is(await first.process.exited, 0);
    await stack.startWorker();
    t.is((await whole).kind, 'answered');
    see('1 of 1 streams ended with an error frame, 1 of 1 complete responses came from another worker');
  },
);

faultTest(
  test,
  {
    id: '6d',
    done: "an ingress's grace period ends while a client waits",
    promised: '503, and the backend call is cancelled',
  },
  async (t, see) => {
    await using stack = await startStack({ models: oneBackend, ingresses: 0, env: { SHUTDOWN_GRACE_MS: '100' } });
    const first: RunningIngress = await stack.startIngress();
    const key = await stack.mintKey('alice');
    const [server] = stack.modelServers;
    server.fail({ hang: true });
    const held = ask({ url: first.url, key, id: 'held-w' });
    await server.waitForCall(({ state }) => state === 'running');
    first.process.kill('SIGTERM');
    const ending = await held;
    t.like(ending, { kind: 'refused', status: 503 });
    t.is(await first.process.exited, 0);
    // No client waits any more, so the call of the model server is cancelled.
    t.is((await server.waitForCall(({ state }) => state !== 'running')).state, 'aborted');
    see('1 of 1 got 503, and its call was cancelled');
  },
);

test('a stopping worker reports how many jobs it still has, during its grace period, which may be as long as a request', async (t) => {
  await using stack = await startStack({ models: oneBackend, env: { SHUTDOWN_GRACE_MS: '600000' } });
  const key = await stack.mintKey('alice');
  const [worker] = stack.workers;
  const [server] = stack.modelServers;
  if (worker === undefined) return t.fail();
  server.fail({ endless: true, chunkMs: 10, times: 2 });
  const url = stack.ingresses[0]?.url ?? '';
  const held = [ask({ url, key, id: 'one-s' }), ask({ url, key, id: 'two-s' })];
  await until(() => server.calls().filter(({ chunksSent }) => chunksSent > 2).length === 2);
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
  await stack.startWorker();
  t.deepEqual(
    (await Promise.all(held)).map(({ kind }) => kind),
    ['failed', 'failed'],
  );
});

test('an ingress does not wait for a connection without any request', async (t) => {
  // It would wait for half of this, longer than this test may take.
  await using stack = await startStack({ workers: 0, env: { SHUTDOWN_GRACE_MS: '1200000' } });
  const [ingress] = stack.ingresses;
  const unused = connect(Number(new URL(ingress?.url ?? '').port), '127.0.0.1');
  await once(unused, 'connect');
  ingress?.process.kill('SIGTERM');
  t.is(await ingress?.process.exited, 0);
});

test('a process that is not ready yet exits on SIGTERM', async (t) => {
  await using stack: Stack = await startStack({ ingresses: 0, workers: 0 });
  await stack.redis?.stop();
  const ingress = stack.startIngress().catch(() => 'ended');
  const worker: Promise<RunningProcess | string> = stack.startWorker().catch(() => 'ended');
  await until(() => stack.started().length === 2 && stack.started().every((child) => child.logs.length > 0));
  for (const child of stack.started()) child.kill('SIGTERM');
  t.deepEqual(await Promise.all(stack.started().map((child) => child.exited)), [0, 0]);
  t.deepEqual(await Promise.all([ingress, worker]), ['ended', 'ended']);
});

test('processes exit on SIGTERM while Redis is unavailable or frozen', async (t) => {
  for (const signal of ['SIGKILL', 'SIGSTOP'] as const) {
    await using stack = await startStack({ env: { SHUTDOWN_GRACE_MS: '500' } });
    await stack.redis?.kill(signal);
    for (const child of stack.started()) child.kill('SIGTERM');
    t.deepEqual(await Promise.all(stack.started().map((child) => child.exited)), [0, 0]);
  }
});
