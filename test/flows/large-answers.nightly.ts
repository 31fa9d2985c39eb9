import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { type Stack, startStack } from '../stack/stack.ts';
import { everyEndpoint } from '../support/every-endpoint.ts';
import { createKeyClient } from '../support/key-client.ts';

/** As in a container of 512 MB. */
const containerBytes = 536_870_912;
const vectorNumbers = 1_024;
/** That read nothing, and as many others. */
const callers = 12;
const usage = { prompt_tokens: 1, total_tokens: 1 };
const vector = `[${Array.from({ length: vectorNumbers }, (_, index) => Math.fround(Math.sin(index + 1))).join(',')}]`;
const answerOf = (vectors: number) =>
  Buffer.from(
    `{"object":"list","model":"everything","data":[${Array.from({ length: vectors }, (_, index) => `{"object":"embedding","index":${index},"embedding":${vector}}`).join(',')}],"usage":${JSON.stringify(usage)}}`,
  );
const large = answerOf(Math.floor(15_728_640 / (vector.length + 60)));
const small = answerOf(1);

let stack: Stack;
const server = createServer(async (request, response) => {
  if (request.method === 'GET') return response.writeHead(404).end(); // what it serves
  const { input } = JSON.parse(await textOf(request));
  const body = input === 'large' ? large : small;
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length }).end(body);
});

/** The resident memory of a process in bytes, without mapped files: the kernel drops these before a container is full. */
async function ownMemoryOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(status.match(/^RssAnon:\s+(\d+) kB$/m)?.[1]) * 1_024;
}

async function textOf(request: IncomingMessage): Promise<string> {
  return Buffer.concat(await request.toArray()).toString();
}

test.before(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`; // a TCP listener has one
  stack = await startStack({
    models: everyEndpoint,
    plans: { free: { model_tiers: ['guest'] } },
    backends: { 'onprem-a': { url }, 'onprem-b': { url }, cloud: { url } },
    env: { NODE_OPTIONS: '--max-old-space-size=256' },
  });
});

test.after.always(async () => {
  await stack?.[Symbol.asyncDispose]();
  server.close();
});

const bodyOf = (input: string) => JSON.stringify({ model: 'everything', input, encoding_format: 'float' });

test('large answers of an account that reads none of them, and of many devices, neither end a process nor delay small ones', async (t) => {
  const keys = createKeyClient(stack);
  const { url } = stack.ingresses[0] ?? { url: '' };
  const [hog, victim] = [await keys.newKey('hog'), await keys.newKey('victim')];
  const guests: string[] = [];
  for (let device = 0; device < callers; device++)
    guests.push(String((await keys.guest(`device-of-large-answers-${device}`)).body.key));
  const ask = (key: string, input: string) =>
    fetch(`${url}/v1/embeddings`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: bodyOf(input),
      signal: AbortSignal.timeout(120_000),
    });

  for (let count = 0; count < callers; count++) {
    const socket = connect(Number(new URL(url).port), '127.0.0.1').pause();
    socket.on('error', () => {}); // it may be disconnected
    t.teardown(() => socket.destroy());
    const body = bodyOf('large');
    socket.write(
      `POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${hog}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
  }
  let isOver = false;
  const answers = Promise.all(
    guests.map(async (key) => {
      const response = await ask(key, 'large');
      const bytes = Buffer.from(await response.arrayBuffer());
      return { status: response.status, isWhole: bytes.equals(large) };
    }),
  ).finally(() => {
    isOver = true;
  });
  let smallAnswers = 0;
  let most = 0;
  while (!isOver) {
    const response = await ask(victim, 'small');
    t.is(response.status, 200);
    t.true(Buffer.from(await response.arrayBuffer()).equals(small));
    smallAnswers++;
    await sleep(100);
    for (const { process } of [...stack.ingresses, ...stack.workers])
      most = Math.max(most, await ownMemoryOf(Number(process.pid)));
  }
  t.deepEqual(
    await answers,
    guests.map(() => ({ status: 200, isWhole: true })),
  );
  t.true(smallAnswers > 0);
  t.true(most < containerBytes, `${Math.round(most / 1_048_576)} MiB`);
  t.log(`${smallAnswers} small answers meanwhile; at most ${Math.round(most / 1_048_576)} MiB`);
  t.is((await ask(victim, 'small')).status, 200);
});
