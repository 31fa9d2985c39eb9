import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { ExecutionContext } from 'ava';
import type { Stack, StackOptions } from '../stack/stack.ts';
import { everyEndpoint } from './every-endpoint.ts';
import { createKeyClient } from './key-client.ts';

const { everything } = everyEndpoint;
const bodyBytesMax = 65_536;

/** What a stack needs so that an SDK can get each of the errors. */
export const sdkErrorsStack = {
  models: {
    ...everyEndpoint,
    'down-chat': { ...everything, backends: ['onprem-b'] },
    premium: { ...everything, tier: 'premium' },
  },
  plans: { 'one-token': { tokens_per_month: 1, model_tiers: ['guest'] } },
  env: { BODY_BYTES_MAX: String(bodyBytesMax) },
} satisfies StackOptions;

export type Ask = { key: string; model: string; content: string; temperature: number };
/** What an SDK did: how often it asked, the status that it reports, and what the user reads. */
export type Seen = { asked: number; status: number | undefined; message: string };
/** `asked`: how often a request goes out with the usual settings of the SDK. */
type Expected = { asked: number; status: number; reads: RegExp };

const expectations: Record<string, Expected> = {
  'a wrong key': { asked: 1, status: 401, reads: /The API key is malformed/ },
  'a used-up month': { asked: 1, status: 402, reads: /monthly quota is used up/ },
  'a key that may not': { asked: 1, status: 403, reads: /may not use/ },
  'an unknown model': { asked: 1, status: 404, reads: /no such model \\?"none\\?"; the plan/ },
  'a wrong field': { asked: 1, status: 400, reads: /temperature/ },
  'a body that is too large': { asked: 1, status: 413, reads: /larger than 65536 bytes/ },
  'a model outside the plan': { asked: 1, status: 429, reads: /upgrade is required/ },
  'no model server that answers': { asked: 3, status: 503, reads: /No model server could answer/ },
};

/** Opens what an SDK asks for each error, and a proxy in front of the service that counts. */
export async function openSdkErrors(stack: Stack) {
  const keys = createKeyClient(stack);
  const [key, spent] = [await keys.newKey('sdk-errors'), await keys.newKey('sdk-errors-spent')];
  await keys.change('user:sdk-errors-spent', { plan: 'one-token' });
  await keys.infer(spent, 'everything');
  const bearer = await keys.token('sdk-errors');
  const limited = await keys.send('POST', '/v1/keys', {
    bearer,
    body: { name: 'limited', endpoints: ['/v1/embeddings'] },
  });
  stack.modelServers[1]?.fail({ status: 500 }, 'down-chat');
  const usual = { key, model: 'everything', content: 'Hi', temperature: 1 };
  const asks: Record<string, Ask> = {
    'a wrong key': { ...usual, key: 'svc_wrong' },
    'a used-up month': { ...usual, key: spent },
    'a key that may not': { ...usual, key: String(limited.body.key) },
    'an unknown model': { ...usual, model: 'none' },
    'a wrong field': { ...usual, temperature: 9 },
    'a body that is too large': { ...usual, content: 'x'.repeat(bodyBytesMax) },
    'a model outside the plan': { ...usual, model: 'premium' },
    'no model server that answers': { ...usual, model: 'down-chat' },
  };
  const proxy = await startCountingProxy(Number(new URL(stack.ingresses[0]?.url ?? '').port));
  return { asks, proxy };
}

/** Passes everything on to this port, and counts the requests by their header `x-case`. */
async function startCountingProxy(port: number) {
  const counts = new Map<string, number>();
  const server = createServer((req, res) => {
    const name = String(req.headers['x-case']);
    counts.set(name, (counts.get(name) ?? 0) + 1);
    const passed = request({ port, host: '127.0.0.1', path: req.url, method: req.method, headers: req.headers });
    passed.on('response', (answer) => {
      res.writeHead(answer.statusCode ?? 0, answer.headers);
      answer.pipe(res);
    });
    passed.on('error', () => res.destroy());
    req.pipe(passed);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`; // a TCP server's address
  return { url, askedOf: (name: string) => counts.get(name) ?? 0, close: () => server.close() };
}

/** Requires of each case how often the SDK has asked, the status that it reports, and what its user reads. */
export function assertSeen(t: ExecutionContext, sdk: string, seen: Record<string, Seen>): void {
  for (const [name, { asked, status, reads }] of Object.entries(expectations)) {
    t.like(seen[name], { asked, status }, `${sdk}, ${name}: ${seen[name]?.message}`);
    t.regex(seen[name]?.message ?? '', reads, `${sdk}, ${name}`);
  }
}
