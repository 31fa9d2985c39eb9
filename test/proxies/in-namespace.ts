import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { setTimeout as sleep } from 'node:timers/promises';
import { startLoad } from '../support/load.ts';
import type { ProxyName } from './proxies.ts';
import { type ServedProxy, serveBehind } from './serve-behind.ts';

/** Run by proxies.nightly.ts in namespaces of its own: node in-namespace.ts <proxy> <folder> <restarts>. Prints what was seen as JSON. */

export type ProxyReport = Awaited<ReturnType<typeof see>>;

const [name = '', folder = '', restarts = '10'] = process.argv.slice(2);
const bodyBytesMax = 16_777_216;
const waitMs = 20_000;

async function see() {
  await using served = await serveBehind(name as ProxyName, folder); // given by the test
  const url = served.url;
  return {
    gapsMs: { direct: await medianGapMs(served, served.direct), behind: await medianGapMs(served, url) },
    clientLeft: { stream: await clientLeaves(served, true), whole: await clientLeaves(served, false) },
    tooLarge: await sendTooLarge(served),
    address: await addressSeen(served),
    http2: await askOverHttp2(served),
    rolling: await restartInTurn(served, Number(restarts)),
  };
}

type Sent = { stream: boolean; content?: string; headers?: Record<string, string>; signal?: AbortSignal };

function send({ key, dispatcher }: ServedProxy, url: string, { stream, content, headers, signal }: Sent) {
  return dispatcher.request({
    ...{ origin: url, path: '/v1/chat/completions', method: 'POST' },
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model: 'small-chat', stream, messages: [{ role: 'user', content: content ?? 'hello' }] }),
    ...(signal && { signal }),
  });
}

/** Of a stream with a token each 30 ms: the median of the times between two arrivals. */
async function medianGapMs(served: ServedProxy, url: string): Promise<number> {
  served.stack.modelServers[0].fail({ chunkMs: 30, times: 1 });
  const { body } = await send(served, url, { stream: true, content: 'word '.repeat(40) });
  const gaps: number[] = [];
  let at = performance.now();
  for await (const _ of body) {
    gaps.push(performance.now() - at);
    at = performance.now();
  }
  return Math.round(gaps.toSorted((a, b) => a - b)[gaps.length >> 1] ?? 0);
}

/** A client that leaves an answer without an end: how the call of the model server has ended. */
async function clientLeaves(served: ServedProxy, stream: boolean): Promise<string> {
  const [server] = served.stack.modelServers;
  const before = server.calls().length;
  server.fail({ endless: true, chunkMs: 20, times: 1 });
  const leaving = new AbortController();
  const answer = send(served, served.url, { stream, signal: leaving.signal });
  if (stream) for await (const _ of (await answer).body) break;
  else await becomes(() => server.calls().length > before);
  leaving.abort();
  await answer.catch(() => {});
  const call = () => server.calls()[before];
  return (await becomes(() => call()?.state !== 'running')) ? String(call()?.state) : 'still running';
}

async function sendTooLarge(served: ServedProxy) {
  const { statusCode, body } = await send(served, served.url, { stream: false, content: 'a'.repeat(bodyBytesMax + 1) });
  return { status: statusCode, code: codeIn(await body.json()) };
}

function codeIn(body: unknown): unknown {
  return (body as { code?: unknown }).code; // an error of the service itself
}

/** The address of the client that the ingress has logged, for a request whose own header names another one. */
async function addressSeen(served: ServedProxy): Promise<unknown> {
  const { headers, body } = await send(served, served.url, {
    stream: false,
    headers: { 'x-forwarded-for': '203.0.113.7' },
  });
  await body.dump();
  const lines = () => served.ingresses().flatMap(({ process }) => process.logs);
  const line = () => lines().find(({ requestId, address }) => requestId === headers['x-request-id'] && address);
  await becomes(() => line() !== undefined);
  return line()?.address;
}

/** Over TLS if the proxy has it, else with prior knowledge (RFC 9113 3.3). */
async function askOverHttp2({ url, key, certificate }: ServedProxy) {
  const session = connectHttp2(url, { ca: certificate });
  const request = session.request({
    ...{ ':method': 'POST', ':path': '/v1/chat/completions', 'content-type': 'application/json' },
    authorization: `Bearer ${key}`,
  });
  request.end(JSON.stringify({ model: 'small-chat', stream: true, messages: [{ role: 'user', content: 'hello' }] }));
  const [headers] = await once(request, 'response');
  let text = '';
  for await (const chunk of request) text += chunk;
  session.close();
  return { status: headers[':status'], isComplete: text.endsWith('data: [DONE]\n\n') };
}

/** Under load, on connections that are used again. */
async function restartInTurn(served: ServedProxy, count: number) {
  const { url, key, dispatcher } = served;
  const load = startLoad({ teardown() {} }, { url: () => url, keys: [key], name: 'load', clients: 8, dispatcher });
  for (let index = 0; index < count; index++) await served.restart(index);
  const endings = await load.stop();
  return {
    answered: endings.filter(({ kind }) => kind === 'answered').length,
    others: endings.filter(({ kind }) => kind !== 'answered').slice(0, 20),
  };
}

async function becomes(condition: () => boolean): Promise<boolean> {
  const endsAt = performance.now() + waitMs;
  while (!condition() && performance.now() < endsAt) await sleep(20);
  return condition();
}

process.stdout.write(`${JSON.stringify(await see())}\n`);
