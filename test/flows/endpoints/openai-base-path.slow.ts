import type { ExecutionContext } from 'ava';
import test from 'ava';
import { endpoints } from '../../../shared/endpoints/endpoints.ts';
import { documentedRoutes } from '../../support/api-routes.ts';
import { exchange, type RawAnswer } from '../../support/raw-http.ts';
import { head } from '../../support/refusal.ts';
import { someOf } from '../../support/size.ts';
import { assertExpected, forEachCase } from '../route-cases/case.ts';
import { openCases } from '../route-cases/open-cases.ts';

const routes = Object.keys(documentedRoutes).filter((route) => route.includes(' /v1/'));
const parts = new AsyncDisposableStack();
let port: number;
let cases: Awaited<ReturnType<typeof openCases>>['cases'];

test.before(async () => {
  ({ port, cases } = await openCases(parts));
});
test.after.always(() => parts.disposeAsync());

/** The same request below the other base path. */
function below(send: Buffer): Buffer {
  const text = send.toString('latin1');
  if (!/^\S+ \/v1\//.test(text)) throw new Error(`another path: ${text.slice(0, 50)}`);
  return Buffer.from(text.replace(' /v1/', ' /openai/v1/'), 'latin1');
}

type Fields = Record<string, unknown>;

/** The nested error that stands for an error of any of the usual shapes. */
function nestedOf({ status, body }: RawAnswer): Fields {
  const { error, code, ...fields } = JSON.parse(body) as { error: string | Fields; code?: string }; // a response of the service itself
  const type = status < 500 ? 'invalid_request_error' : 'server_error';
  if (typeof error === 'string') return { message: error, code, type, param: null, ...fields };
  if (!('request_id' in fields)) return error;
  const { limit, details: _, ...others } = error;
  return { ...others, type: limit ?? type, param: null };
}

/** The second request has to wait for less time. */
const withoutWait = ({ message, ...fields }: Fields): Fields => ({
  ...fields,
  message: String(message).replace(/(?<=Retry in )\d+(?= ms)/, 'some'),
});

const varying =
  /^(?:date|x-request-id|content-length|x-ratelimit-.*|x-svc-quota-.*|x-svc-queue-ms|retry-after.*|etag)$/;
/** Only the endpoints with their own errors have it. */
const ownHeader = 'request-id';

const headersOf = ({ headers }: RawAnswer) =>
  Object.fromEntries(
    Object.entries(headers)
      .filter(([name]) => name !== ownHeader)
      .map(([name, value]) => [name, varying.test(name) ? 'varies' : value]),
  );

/** Objects that may change between two calls: only their names count. */
const moving: readonly unknown[] = ['batch', 'webhook_delivery'];

/** The types of all values. A list has the shape of its first item. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.slice(0, 1).map(shapeOf);
  if (typeof value !== 'object' || value === null) return typeof value;
  if ('object' in value && moving.includes(value.object)) return Object.keys(value);
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, shapeOf(member)]));
}

function assertSame(t: ExecutionContext, usual: RawAnswer, other: RawAnswer, about: string): void {
  t.is(other.status, usual.status, `${about}: ${other.body}`);
  t.deepEqual(headersOf(other), headersOf(usual), about);
  if (other.status < 400) {
    if (other.headers['content-type'] === 'application/octet-stream') t.is(other.body, usual.body, about);
    else t.deepEqual(shapeOf(JSON.parse(other.body)), shapeOf(JSON.parse(usual.body)), about);
    return;
  }
  const { error } = JSON.parse(other.body) as { error: Fields }; // a response of the service itself
  t.deepEqual(Object.keys(JSON.parse(other.body)), ['error'], about);
  const { param, retry_after_ms: wait, ...fields } = error;
  const { param: _, retry_after_ms: usualWait, ...expected } = nestedOf(usual);
  t.deepEqual(withoutWait(fields), withoutWait(expected), about);
  t.is(wait === undefined, usualWait === undefined, about);
  for (const name of ['type', 'code', 'message']) t.is(typeof fields[name], 'string', `${about}: ${name}`);
  if (param !== null) t.true(String(error.message).startsWith(`${param}: `), `${about}: ${param}`);
  if (error.code !== 'VALIDATION_ERROR') t.is(param, null, about);
}

/** The one error that is another one here: clients of OpenAI act on its status and code. */
function assertModelNotFound(t: ExecutionContext, { status, body }: RawAnswer, about: string): void {
  t.is(status, 404, about);
  const { error } = JSON.parse(body) as { error: Fields }; // a response of the service itself
  t.like(error, { code: 'model_not_found', type: 'invalid_request_error', param: 'model' }, about);
  t.regex(String(error.message), /^There is no such model ".*"; the plan /, about);
}

const isKeyed = (title: string) => title === 'an idempotency key';

/** What it changes can be done once. */
const once: Record<string, (title: string) => boolean> = {
  'POST /v1/keys/developer': (title) => title === 'an account without any',
  'POST /v1/keys/developer/rotate': () => true,
  'POST /v1/keys/developer/revoke': () => true,
  'DELETE /v1/files/:file': () => true,
  'POST /v1/keys/key_:key/rotate': () => true,
  'DELETE /v1/webhooks/wh_:webhook': () => true,
  // A repeat also says that it is one.
  ...Object.fromEntries(
    [...endpoints.map(({ path }) => path), '/v1/batches', '/v1/batches/:batch/retry'].map((path) => [
      `POST ${path}`,
      isKeyed,
    ]),
  ),
};

for (const route of routes) {
  test.serial(`${route} answers as usual below the other base path, and nests each error`, async (t) => {
    const all = (cases[route] ?? []).filter(({ base }) => base === undefined);
    t.true(all.length > 0, 'there are cases of this route');
    const repeatable = all.filter(({ answer, title }) => answer !== '200' || once[route]?.(title) !== true);
    const some = repeatable.filter((_, index) => index % 24 === 0);
    await forEachCase(someOf(some, repeatable), async ({ title, send }) => {
      const usual = await exchange({ port, send });
      const other = await exchange({ port, send: below(send) });
      if (other.body.includes('no such model')) assertModelNotFound(t, other, `${route}: ${title}`);
      else assertSame(t, usual, other, `${route}: ${title}`);
    });
  });
}

test.serial('what can be done once is done below the other base path, too', async (t) => {
  for (const [route, isOnce] of Object.entries(once)) {
    const changes = (cases[route] ?? []).filter(({ answer, title }) => answer === '200' && isOnce(title));
    t.true(changes.length > 0, route);
    for (const one of changes) {
      const answer = await exchange({ port, send: below(one.send) });
      const about = `${route}: ${one.title}: ${answer.body}`;
      t.is(answer.status, 200, about);
      assertExpected(t, one, answer.body, about);
    }
  }
});

test.serial(
  'an unknown path is refused with the path that was asked for, and a suggestion below the same base path, if the route is there',
  async (t) => {
    for (const path of [
      '/v1/nothing',
      '/v1/chat/completion',
      '/v1/models/',
      '/v1/assistants',
      '/v1/%zz',
      '/v1/v1/models',
      '/v1/billing/quota',
    ]) {
      const send = Buffer.from(head(`GET ${path} HTTP/1.1`));
      const usual = await exchange({ port, send });
      const expected = { ...usual, body: usual.body.replaceAll('/v1/', '/openai/v1/') };
      const about = expected.body.includes('/openai/v1/v1')
        ? expected.body.replace('/openai/v1/openai', '/openai/v1')
        : expected.body;
      assertSame(t, { ...usual, body: about }, await exchange({ port, send: below(send) }), path);
    }
  },
);

test.serial('no other routes are served below the other base path', async (t) => {
  for (const path of [
    '/openai/',
    '/openai',
    '/openai/v1',
    '/openai/billing/quota',
    '/openai/admin/plans',
    '/openai/admin/settings',
    '/openai/docs',
  ]) {
    const { status, body } = await exchange({ port, send: head(`GET ${path} HTTP/1.1`) });
    t.is(status, 404, path);
    t.like(JSON.parse(body), { code: 'NOT_FOUND' }, 'with the usual error');
  }
});
