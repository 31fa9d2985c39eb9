import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { ExecutionContext } from 'ava';
import Koa from 'koa';
import { answerErrors } from '../../ingress/middleware/answer-errors.ts';
import { assignRequestId, chooseErrorFormat } from '../../ingress/middleware/request-head.ts';
import type { RequestState } from '../../ingress/request-state.ts';
import { ApiError, type ErrorCode, errorCodes, rateLimitExceeded } from '../../shared/errors.ts';
import type { Stack, StackOptions } from '../stack/stack.ts';
import { everyEndpoint } from './every-endpoint.ts';
import { createKeyClient } from './key-client.ts';
import { recordedLog } from './recorded-log.ts';

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
export type SeenError = { asked: number; status: number | undefined; message: string };
/** `asked`: how often a request goes out with the usual settings of the SDK. */
type Expected = { asked: number; status: number; reads: RegExp };

/** Every code of a response. The service is in trouble when it sends some of them, so they come from its own error handling alone. */
const codes = (Object.keys(errorCodes) as ErrorCode[]).filter((code) => code !== 'UPSTREAM_INTERRUPTED');
const wordsOf = (code: ErrorCode) => `These are the words of ${code}.`;

const expectations: Record<string, Expected> = {
  ...Object.fromEntries(
    codes.map((code) => {
      const { status, retryable } = errorCodes[code];
      return [code, { asked: retryable ? 3 : 1, status, reads: new RegExp(wordsOf(code)) }];
    }),
  ),
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
    ...Object.fromEntries(codes.map((code) => [code, usual])),
    'a wrong key': { ...usual, key: 'svc_wrong' },
    'a used-up month': { ...usual, key: spent },
    'a key that may not': { ...usual, key: String(limited.body.key) },
    'an unknown model': { ...usual, model: 'none' },
    'a wrong field': { ...usual, temperature: 9 },
    'a body that is too large': { ...usual, content: 'x'.repeat(bodyBytesMax) },
    'a model outside the plan': { ...usual, model: 'premium' },
    'no model server that answers': { ...usual, model: 'down-chat' },
  };
  const errors = await listenAt(createServer(answersOfCodes()));
  const service = Number(new URL(stack.ingresses[0]?.url ?? '').port);
  const proxy = await startCountingProxy((name) => (codeOf(name) === undefined ? service : portOf(errors)));
  const close = () => {
    proxy.close();
    errors.close();
  };
  return { asks, proxy: { ...proxy, close } };
}

/** A case is named for its SDK, and ends with the name of its question. */
const codeOf = (name: string) => codes.find((code) => name.endsWith(` ${code}`));

function answersOfCodes() {
  const app = new Koa<RequestState>();
  const { log } = recordedLog();
  app
    .use(assignRequestId)
    .use(answerErrors({ log, docsUrl: '' }))
    .use(chooseErrorFormat);
  app.use(({ req }) => {
    req.resume();
    const code = codeOf(String(req.headers['x-case'])) ?? 'INTERNAL_ERROR';
    throw code === 'rate_limit_exceeded'
      ? rateLimitExceeded('requests_limit', wordsOf(code), 10)
      : new ApiError(code, wordsOf(code));
  });
  app.on('error', () => {});
  return app.callback();
}

async function listenAt(server: Server): Promise<Server> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

const portOf = (server: Server) => (server.address() as AddressInfo).port; // a TCP server's address

/** Passes everything on to the port of its case, the header `x-case`, and counts the requests. */
async function startCountingProxy(portFor: (name: string) => number) {
  const counts = new Map<string, number>();
  const server = createServer((req, res) => {
    const name = String(req.headers['x-case']);
    counts.set(name, (counts.get(name) ?? 0) + 1);
    const { url: path, method, headers } = req;
    const passed = request({ port: portFor(name), host: '127.0.0.1', path, method, headers });
    passed.on('response', (answer) => {
      res.writeHead(answer.statusCode ?? 0, answer.headers);
      answer.pipe(res);
    });
    passed.on('error', () => res.destroy());
    req.pipe(passed);
  });
  await listenAt(server);
  const url = `http://127.0.0.1:${portOf(server)}`;
  return { url, askedOf: (name: string) => counts.get(name) ?? 0, close: () => server.close() };
}

/** Requires of each case how often the SDK has asked, the status that it reports, and what its user reads. */
export function assertSeen(t: ExecutionContext, sdk: string, seen: Record<string, SeenError>): void {
  for (const [name, { asked, status, reads }] of Object.entries(expectations)) {
    t.like(seen[name], { asked, status }, `${sdk}, ${name}: ${seen[name]?.message}`);
    t.regex(seen[name]?.message ?? '', reads, `${sdk}, ${name}`);
  }
}
