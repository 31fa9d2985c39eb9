import test from 'ava';
import { isOpenAiRoute, suggestRoute } from '../../../ingress/middleware/route-requests.ts';

const routes: [path: RegExp, methods: string[]][] = [
  [/^\/$/, ['HEAD', 'GET']],
  [/^\/v1\/chat\/completions$/, ['POST']],
  [/^\/v1\/models$/, ['HEAD', 'GET']],
  [/^\/v1\/models\/.+$/, ['HEAD', 'GET']],
  [/^\/v1\/files\/[^/]+$/, ['HEAD', 'GET', 'DELETE']],
  [/^\/billing\/quota$/, ['HEAD', 'GET']],
];
const methodsAt = (path: string) => routes.find(([pattern]) => pattern.test(path))?.[1] ?? [];
const patterns = [
  ...['/', '/v1/chat/completions', '/v1/models', '/v1/models/*model', '/v1/files/:file', '/billing/quota'],
  '/v1/keys/key_:key',
];
const suggest = (method: string, path: string) => {
  const meant = suggestRoute({ method, path }, { methodsAt, patterns });
  return meant && `${meant.method} ${meant.path}`;
};

test('suggests a similar route with a method that it supports', (t) => {
  const meant: [method: string, path: string, route: string][] = [
    ['POST', '/chat/completions', 'POST /v1/chat/completions'],
    ['GET', '/chat/completions', 'POST /v1/chat/completions'],
    ['POST', '/v1/chat/completions/', 'POST /v1/chat/completions'],
    ['POST', '/v1/v1/chat/completions', 'POST /v1/chat/completions'],
    ['POST', '//v1//chat/completions', 'POST /v1/chat/completions'],
    ['POST', '/V1/Chat/Completions', 'POST /v1/chat/completions'],
    ['POST', '/api/v1/chat/completions', 'POST /v1/chat/completions'],
    ['GET', '/models/', 'GET /v1/models'],
    ['PUT', '/models', 'GET /v1/models'],
    ['GET', '/models/Org/Name', 'GET /v1/models/Org/Name'],
    ['DELETE', '/files/file-1', 'DELETE /v1/files/file-1'],
    ['GET', '/v1/billing/quota', 'GET /billing/quota'],
    ['GET', '/v1', 'GET /'],
  ];
  for (const [method, path, route] of meant) t.is(suggest(method, path), route, path);
});

test('suggests the route of a path in which one letter is wrong', (t) => {
  const meant: [path: string, route: string | undefined][] = [
    ['/v1/chat/completion', 'POST /v1/chat/completions'],
    ['/v1/chat/completionss', 'POST /v1/chat/completions'],
    ['/v1/chat/compketions', 'POST /v1/chat/completions'],
    ['/v1/chat/copmletions', 'POST /v1/chat/completions'],
    ['/chat/Completion', 'POST /v1/chat/completions'],
    ['/v2/chat/completions', 'POST /v1/chat/completions'],
    ['/v1/model', 'POST /v1/models'],
    ['/v1/file/file-1', 'POST /v1/files/file-1'],
    ['/biling/quota', 'POST /billing/quota'],
    ['/v1/chatt/completion', undefined],
    ['/v1/chat/complation', undefined],
    ['/v1/chat', undefined],
  ];
  for (const [path, route] of meant) t.is(suggest('POST', path)?.replace('GET', 'POST'), route, path);
  t.is(suggest('POST', `/v1/${'x/'.repeat(8_000)}`), undefined);
});

test('suggests nothing for a path unlike any route', (t) => {
  for (const path of ['/nothing', '/v1/nothing', '/v1/chat/completions/x', '/v1/files', '/quota', '/%zz', '']) {
    t.is(suggest('GET', path), path === '' ? 'GET /' : undefined, path);
  }
});

test('recognises routes of OpenAI with and without /v1', (t) => {
  for (const path of ['/v1/embeddings', '/embeddings', '/v1/images/generations', '/v1/chat/completions/id/messages']) {
    t.true(isOpenAiRoute(path), path);
  }
  for (const path of ['/v1/nothing', '/v1', '/', '/v1/embedding', '/constructor']) t.false(isOpenAiRoute(path), path);
});
