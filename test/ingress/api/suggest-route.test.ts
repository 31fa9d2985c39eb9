import test from 'ava';
import { isOpenAiRoute, suggestRoute } from '../../../ingress/api/suggest-route.ts';

const routes: [path: RegExp, methods: string[]][] = [
  [/^\/$/, ['HEAD', 'GET']],
  [/^\/v1\/chat\/completions$/, ['POST']],
  [/^\/v1\/models$/, ['HEAD', 'GET']],
  [/^\/v1\/models\/.+$/, ['HEAD', 'GET']],
  [/^\/v1\/files\/[^/]+$/, ['HEAD', 'GET', 'DELETE']],
  [/^\/billing\/quota$/, ['HEAD', 'GET']],
];
const methodsAt = (path: string) => routes.find(([pattern]) => pattern.test(path))?.[1] ?? [];
const suggest = (method: string, path: string) => {
  const meant = suggestRoute({ method, path }, methodsAt);
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
