import type { ExecutionContext } from 'ava';
import type { Route as DescribedRoute } from '../../ingress/api/route.ts';
import { documentedRoutes } from '../support/api-routes.ts';
import {
  answerName,
  documentedAnswers,
  type Route,
  routes,
  shapeFaults,
  shapeFaultsOffRoute,
} from '../support/documented-answers.ts';
import { databaseUrl, type MongoServer } from '../support/mongodb/start-mongo.ts';
import { exchange } from '../support/raw-http.ts';
import { assertDisclosesNothing, assertRefused, head, stillServes, wrongMethod } from '../support/refusal.ts';
import { assertExpected, type Case, forEachCase } from './route-cases/case.ts';
import { targetOf } from './route-cases/common-cases.ts';
import { openCases } from './route-cases/open-cases.ts';

type Registrar = {
  test: {
    serial(title: string, prove: (t: ExecutionContext) => Promise<void>): void;
    before(prepare: () => Promise<void>): void;
    after: { always(end: () => Promise<void>): void };
  };
  /** The database server of the store, stopped after the service. Omit it to use the embedded store. */
  mongo?: MongoServer;
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
  if (!hasClients) return body;
  return body.replace(/"(address|created_from|revoked_from)":"127.0.0.1"/g, '').replaceAll(',127.0.0.1,', ',');
}

/** Tests each route by every status and code that it can answer, except internal faults, on either store. */
export function testRouteStatuses({ test, mongo }: Registrar): void {
  let opened: Awaited<ReturnType<typeof openCases>>;
  const seen = new Set<string>();
  const parts = new AsyncDisposableStack();

  test.before(async () => {
    if (mongo !== undefined) parts.use(mongo);
    opened = await openCases(parts, mongo && databaseUrl(mongo.url, `route_statuses_${process.pid}`));
  });
  test.after.always(() => parts.disposeAsync());

  for (const route of routes) {
    for (const answer of documentedAnswers(route)) {
      test.serial(`${route} answers ${answer} in every case that should`, async (t) => {
        const wanted = (opened.cases[route] ?? []).filter((one) => one.answer === answer);
        t.true(wanted.length > 0, 'there is a case for it');
        await forEachCase(wanted, async (one) => void seen.add(`${route} ${await provesCase(t, route, one)}`));
      });
    }
  }

  async function provesCase(t: ExecutionContext, route: Route, wanted: Case): Promise<string> {
    const { answer, title, send, base } = wanted;
    const about = `${route}: ${title}`;
    const got = await exchange({ port: opened.port, send });
    const name = answerName(got);
    if (got.status >= 500)
      t.log(opened.stack.started().flatMap(({ logs }) => logs.filter(({ level }) => level !== 'info')));
    t.is(name, answer, `${about}: ${got.body}`);
    t.deepEqual(shapeFaults(route, got, base), [], `${about}: ${JSON.stringify(got)}`);
    assertDisclosesNothing(t, answer === '200' ? { ...got, body: withoutAddresses(route, got.body) } : got, about);
    if (name !== '200') assertKeepsSecrets(t, `${JSON.stringify(got.headers)} ${got.body}`, about);
    assertExpected(t, wanted, got.body, `${about}: ${got.body}`);
    return name;
  }

  /** No refusal contains a key or a token, not even to its sender: it may be logged in the wrong place. */
  function assertKeepsSecrets(t: ExecutionContext, text: string, about: string): void {
    const secrets = Object.values(opened.cast).flatMap((secret) =>
      typeof secret === 'string' ? [secret] : Object.values(secret),
    );
    for (const secret of secrets) t.false(text.includes(secret), `${about}: ${text}`);
  }

  test.serial('a known path accepts only its own methods; any other gets 405 and the list of them', async (t) => {
    for (const path of paths) {
      const own = routes.filter((route) => pathOf(route) === path).map((route) => route.split(' ')[0] ?? '');
      const taken = new Set(own.flatMap((method) => (method === 'GET' ? ['HEAD', 'GET'] : [method])));
      const target = targetOf(documentedRoutes[`${own[0]} ${path}`] as DescribedRoute); // it is the path of a route
      for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'TRACE'].filter(
        (name) => !taken.has(name),
      )) {
        const title = `${method} ${target}`;
        const answer = await exchange({ port: opened.port, method, send: head(`${method} ${target} HTTP/1.1`) });
        if (method === 'HEAD') t.deepEqual([answer.status, answer.body], [405, ''], title);
        else if (hasOwnErrors(path)) t.deepEqual([answer.status, shapeFaultsOffRoute(method, path, answer)], [405, []]);
        else assertRefused(t, answer, { ...wrongMethod, title });
        t.deepEqual((answer.headers.allow ?? '').split(', ').sort(), [...taken, 'OPTIONS'].sort(), title);
        if (!path.startsWith('/v1/') || method === 'HEAD') continue;
        const below = await exchange({ port: opened.port, send: head(`${method} /openai${target} HTTP/1.1`) });
        t.deepEqual([below.status, below.headers.allow], [405, answer.headers.allow], title);
        t.deepEqual(shapeFaultsOffRoute(method, `/openai${path}`, below), [], title);
      }
      const options = await exchange({ port: opened.port, send: head(`OPTIONS ${target} HTTP/1.1`) });
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
        (opened.cases[route] ?? []).filter(({ answer }) => !documentedAnswers(route).includes(answer)),
      );
      t.deepEqual(undocumented, []);
      await stillServes(t, opened.stack.ingresses[0], opened.cast.key);
    },
  );
}
