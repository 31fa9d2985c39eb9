import test, { type ExecutionContext } from 'ava';
import { Agent, request } from 'undici';
import { answerFor } from '../stack/model-server.ts';
import type { LogLine } from '../stack/service-process.ts';
import { type RunningIngress, type RunningProcess, type Stack, startStack } from '../stack/stack.ts';
import { streamEvents, streamedText } from '../support/chat.ts';
import { createKeyClient } from '../support/key-client.ts';

const rounds = 10;
const clients = 12;

type Ending =
  | { id: string; kind: 'answered' | 'refused' | 'failed'; status: number }
  | { id: string; kind: 'wrong' | 'broken off' | 'no answer'; detail: string };

/** One request on a connection of its own, so that what a shutdown does to idle connections does not come into it. */
async function ask(url: string, key: string, id: string): Promise<Ending> {
  const stream = id.endsWith('s');
  const question = `What is ${id}? 東京`;
  const dispatcher = new Agent();
  try {
    const { statusCode: status, body } = await request(`${url}/v1/chat/completions`, {
      method: 'POST',
      dispatcher,
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}`, 'x-client-request-id': id },
      body: JSON.stringify({ model: 'small-chat', stream, messages: [{ role: 'user', content: question }] }),
    });
    let text: string;
    try {
      text = await body.text();
    } catch (error) {
      return { id, kind: 'broken off', detail: String(error) };
    }
    if (status !== 200) return { id, kind: isError(text) ? 'refused' : 'wrong', status, detail: text };
    if (stream && streamEvents(text).some((event) => event !== '[DONE]' && event.error !== undefined)) {
      return { id, kind: text.includes('[DONE]') ? 'wrong' : 'failed', status, detail: text };
    }
    const said = stream ? streamedText(text) : JSON.parse(text).choices[0].message.content;
    const whole = said === answerFor([{ role: 'user', content: question }]);
    return { id, kind: whole ? 'answered' : 'wrong', status, detail: said };
  } catch (error) {
    return { id, kind: 'no answer', detail: String(error) };
  } finally {
    await dispatcher.close();
  }
}

function isError(text: string): boolean {
  const { error, code } = JSON.parse(text) as { error?: unknown; code?: unknown }; // the service's own answer
  return typeof error === 'string' && typeof code === 'string';
}

/** Clients that ask one question after another until told to stop; each `id` is used once. */
function startLoad({ url, key, name }: { url: () => string; key: string; name: string }) {
  const endings: Ending[] = [];
  let stopped = false;
  const running = Array.from({ length: clients }, async (_, client) => {
    for (let index = 0; !stopped; index++) {
      endings.push(await ask(url(), key, `${name}-${client}-${index}-${index % 3 === 0 ? 's' : 'w'}`));
    }
  });
  return {
    endings,
    async stop() {
      stopped = true;
      await Promise.all(running);
      return endings;
    },
  };
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** What no client may ever see, whatever is shut down. */
function unharmed(t: ExecutionContext, endings: readonly Ending[]): void {
  t.deepEqual(
    endings.filter(({ kind }) => kind === 'wrong' || kind === 'broken off'),
    [],
  );
}

test('an ingress that is asked to end under load answers every request that it has begun to read', async (t) => {
  await using stack = await startStack({ modelServers: { firstTokenMs: 30, tokensPerSecond: 400 } });
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
  t.log(`${answered} answers over ${rounds} shutdowns`);
});

async function unlimitedKey(stack: Stack): Promise<string> {
  const keys = createKeyClient(stack);
  const key = await keys.newKey('alice');
  await keys.change('user:alice', { plan: 'pro' });
  return key;
}

function requestsReadBy({ process }: RunningIngress): Set<unknown> {
  return new Set(process.logs.map(({ clientRequestId }: LogLine) => clientRequestId));
}

test('a worker that is asked to end under load loses no request: it ends them or another takes them over', async (t) => {
  await using stack = await startStack({ workers: 2, modelServers: { firstTokenMs: 30, tokensPerSecond: 400 } });
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
  t.log(`${endings.length} answers over ${rounds} shutdowns`);
});

test('a worker whose grace is over hands back what has sent nothing and ends what has by an error frame', async (t) => {
  await using stack = await startStack({ workers: 0, env: { SHUTDOWN_GRACE_MS: '100' } });
  const key = await stack.mintKey('alice');
  const first = await stack.startWorker();
  const url = stack.ingresses[0]?.url ?? '';
  const [server] = stack.modelServers;

  server.fail({ hang: true, times: 1 });
  const whole = ask(url, key, 'held-w');
  await server.waitForCall(({ state }) => state === 'running');
  server.fail({ endless: true, chunkMs: 10, times: 1 });
  const streamed = ask(url, key, 'held-s');
  await server.waitForCall(({ chunksSent }) => chunksSent > 2);

  first.process.kill('SIGTERM');
  t.is((await streamed).kind, 'failed');
  t.is(await first.process.exited, 0);
  await stack.startWorker();
  t.is((await whole).kind, 'answered');
});

test('an ingress whose grace is over gives what still waits a clean error', async (t) => {
  await using stack = await startStack({ ingresses: 0, env: { SHUTDOWN_GRACE_MS: '100' } });
  const first: RunningIngress = await stack.startIngress();
  const key = await stack.mintKey('alice');
  const [server] = stack.modelServers;
  server.fail({ hang: true });
  const held = ask(first.url, key, 'held-w');
  await server.waitForCall(({ state }) => state === 'running');
  first.process.kill('SIGTERM');
  const ending = await held;
  t.like(ending, { kind: 'refused', status: 503 });
  t.is(await first.process.exited, 0);
  // Nobody waits any more, so the model server's work is called off.
  t.is((await server.waitForCall(({ state }) => state !== 'running')).state, 'aborted');
});

test('a process that is not ready yet ends when it is asked to', async (t) => {
  await using stack: Stack = await startStack({ ingresses: 0, workers: 0 });
  await stack.redis?.stop();
  const ingress = stack.startIngress().catch(() => 'ended');
  const worker: Promise<RunningProcess | string> = stack.startWorker().catch(() => 'ended');
  await until(() => stack.started().length === 2 && stack.started().every((child) => child.logs.length > 0));
  for (const child of stack.started()) child.kill('SIGTERM');
  t.deepEqual(await Promise.all(stack.started().map((child) => child.exited)), [0, 0]);
  t.deepEqual(await Promise.all([ingress, worker]), ['ended', 'ended']);
});

test('processes that are asked to end while Redis is away or frozen do so', async (t) => {
  for (const signal of ['SIGKILL', 'SIGSTOP'] as const) {
    await using stack = await startStack({ env: { SHUTDOWN_GRACE_MS: '500' } });
    await stack.redis?.kill(signal);
    for (const child of stack.started()) child.kill('SIGTERM');
    t.deepEqual(await Promise.all(stack.started().map((child) => child.exited)), [0, 0]);
  }
});
