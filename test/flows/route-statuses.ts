import type { ExecutionContext } from 'ava';
import { openStore } from '../../shared/process/open-store.ts';
import { startStack } from '../stack/stack.ts';
import { documentedRoutes } from '../support/api-routes.ts';
import {
  answerName,
  documentedAnswers,
  type Route,
  routes,
  shapeFaults,
  shapeFaultsOffRoute,
} from '../support/documented-answers.ts';
import { createKeyClient } from '../support/key-client.ts';
import { databaseUrl, type MongoServer } from '../support/mongodb/start-mongo.ts';
import { exchange } from '../support/raw-http.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { assertDisclosesNothing, assertRefused, head, stillServes, wrongMethod } from '../support/refusal.ts';
import { claimUsedKeys } from '../support/used-idempotency-keys.ts';
import { bodyBytesMax, type Case } from './common-cases.ts';
import { bodies, models } from './endpoint-cases.ts';
import { filesOfTests } from './file-cases.ts';
import { type Cast, casesOf, createCast, plans } from './route-cases.ts';
import { webhookEnv } from './webhook-cases.ts';

type Registrar = {
  test: {
    serial(title: string, prove: (t: ExecutionContext) => Promise<void>): void;
    before(prepare: () => Promise<void>): void;
    after: { always(end: () => Promise<void>): void };
  };
  /** The database server of the store, stopped after the service. Omit it to use the embedded store. */
  mongo?: MongoServer;
};

const env = {
  KEY_PEPPER: 'a pepper of at least 32 characters for every route',
  BODY_BYTES_MAX: String(bodyBytesMax),
  TRUST_PROXY: '1',
  DOCS_URL: 'https://docs.example.com/here/',
  // The other pool has no workers: its jobs keep waiting.
  POOLS: 'default',
  TOPUP_URL: 'https://billing.example.com/top-up',
  ...webhookEnv,
};
const hasOwnErrors = (path: string) => documentedRoutes[`POST ${path}`]?.errorSchema !== undefined;
const pathOf = (route: Route) => route.slice(route.indexOf(' ') + 1);
const paths = [...new Set(routes.map(pathOf))];

/**
 * Removes addresses: the document has those of the service and its identity provider, a record or a code has that of its client, and all
 * are local here.
 */
function withoutAddresses(route: Route, body: string): string {
  if (['GET /openapi.json', 'GET /plan-file.schema.json', 'GET /'].includes(route)) return '';
  if (route === 'GET /admin/settings') return body.replaceAll(/"url":"http:\/\/127\.0\.0\.1:\d+\/v1"/g, '');
  const hasClients = route === 'GET /admin/audit' || route.includes('/admin/top-up-codes');
  return hasClients ? body.replace(/"(address|created_from|revoked_from)":"127.0.0.1"/g, '') : body;
}

/** Tests each route by every status and code that it can answer, except internal faults, on either store. */
export function testRouteStatuses({ test, mongo }: Registrar): void {
  let stack: Awaited<ReturnType<typeof startStack>>;
  let port: number;
  let cast: Cast;
  let cases: Readonly<Record<Route, readonly Case[]>>;
  const seen = new Set<string>();
  const parts = new AsyncDisposableStack();

  test.before(async () => {
    if (mongo !== undefined) parts.use(mongo);
    const storeUrl = mongo && databaseUrl(mongo.url, `route_statuses_${process.pid}`);
    stack = parts.use(await startStack({ databaseUrl: storeUrl, env, plans, models, batch: filesOfTests }));
    port = Number(new URL(stack.ingresses[0]?.url ?? '').port);
    const keys = createKeyClient(stack);
    const url = storeUrl ?? `sqlite:${stack.directory}/store.sqlite`;
    const store = parts.use(await openStore(url, recordedLog()));
    cast = await createCast(stack, keys, store);
    cases = casesOf(cast);
    await claimUsedKeys(stack, { account: 'user:alice', pepper: env.KEY_PEPPER, bodies });
    const fromOneAddress = { 'x-forwarded-for': '10.9.9.9' };
    for (let device = 1; device <= 20; device++) await keys.guest(`device-${device}`, fromOneAddress);
  });
  test.after.always(() => parts.disposeAsync());

  for (const route of routes) {
    for (const answer of documentedAnswers(route)) {
      test.serial(`${route} answers ${answer} in every case that should`, async (t) => {
        const wanted = (cases[route] ?? []).filter((one) => one.answer === answer);
        t.true(wanted.length > 0, 'there is a case for it');
        for (const one of wanted) seen.add(`${route} ${await provesCase(t, route, one)}`);
      });
    }
  }

  async function provesCase(t: ExecutionContext, route: Route, wanted: Case): Promise<string> {
    const { answer, title, send, says, check } = wanted;
    const about = `${route}: ${title}`;
    const got = await exchange({ port, send });
    const name = answerName(got);
    if (got.status >= 500) t.log(stack.started().flatMap(({ logs }) => logs.filter(({ level }) => level !== 'info')));
    t.is(name, answer, `${about}: ${got.body}`);
    t.deepEqual(shapeFaults(route, got), [], `${about}: ${JSON.stringify(got)}`);
    assertDisclosesNothing(t, answer === '200' ? { ...got, body: withoutAddresses(route, got.body) } : got, about);
    if (name !== '200') assertKeepsSecrets(t, `${JSON.stringify(got.headers)} ${got.body}`, about);
    if (typeof says === 'string') t.true(got.body.includes(says), `${about}: ${got.body}`);
    else if (says !== undefined) t.regex(got.body, says, about);
    check?.(t, JSON.parse(got.body));
    return name;
  }

  /** No refusal contains a key or a token, not even to its sender: it may be logged in the wrong place. */
  function assertKeepsSecrets(t: ExecutionContext, text: string, about: string): void {
    const secrets = Object.values(cast).flatMap((secret) =>
      typeof secret === 'string' ? [secret] : Object.values(secret),
    );
    for (const secret of secrets) t.false(text.includes(secret), `${about}: ${text}`);
  }

  test.serial('a known path accepts only its own methods; any other gets 405 and the list of them', async (t) => {
    for (const path of paths) {
      const own = routes.filter((route) => pathOf(route) === path).map((route) => route.split(' ')[0] ?? '');
      const taken = new Set(own.flatMap((method) => (method === 'GET' ? ['HEAD', 'GET'] : [method])));
      const target = path.replace('*model', 'small-chat').replace(':account', 'user:alice').replace(':code', 'tuc_x');
      for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'TRACE'].filter(
        (name) => !taken.has(name),
      )) {
        const title = `${method} ${target}`;
        const answer = await exchange({ port, method, send: head(`${method} ${target} HTTP/1.1`) });
        if (method === 'HEAD') t.deepEqual([answer.status, answer.body], [405, ''], title);
        else if (hasOwnErrors(path)) t.deepEqual([answer.status, shapeFaultsOffRoute(method, path, answer)], [405, []]);
        else assertRefused(t, answer, { ...wrongMethod, title });
        t.deepEqual((answer.headers.allow ?? '').split(', ').sort(), [...taken, 'OPTIONS'].sort(), title);
      }
      const options = await exchange({ port, send: head(`OPTIONS ${target} HTTP/1.1`) });
      t.deepEqual([options.status, options.body], [204, ''], target);
      t.is(options.headers['x-content-type-options'], 'nosniff', target);
      t.deepEqual((options.headers.allow ?? '').split(', ').sort(), [...taken, 'OPTIONS'].sort(), target);
    }
  });

  test.serial(
    'the table is complete: every route has its rows, every row was seen, and none is an internal fault',
    async (t) => {
      const documented = routes.flatMap((route) => documentedAnswers(route).map((answer) => `${route} ${answer}`));
      t.deepEqual(
        documented.filter((row) => !seen.has(row)),
        [],
        'documented, but never seen',
      );
      const undocumented = routes.flatMap((route) =>
        (cases[route] ?? []).filter(({ answer }) => !documentedAnswers(route).includes(answer)),
      );
      t.deepEqual(undocumented, []);
      await stillServes(t, stack.ingresses[0], cast.key);
    },
  );
}
