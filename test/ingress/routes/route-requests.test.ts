import Router from '@koa/router';
import test, { type ExecutionContext } from 'ava';
import Koa from 'koa';
import { routeRequests } from '../../../ingress/middleware/route-requests.ts';
import type { RequestState, Stage } from '../../../ingress/request-state.ts';
import { serveApp } from '../../support/serve-app.ts';

const say =
  (text: string): Stage =>
  async (ctx) => {
    const { _matchedRoute: route } = ctx as { _matchedRoute?: unknown }; // set by a router
    ctx.body = { text, route };
  };
const pass: Stage = (_ctx, next) => next();

/** The answers of a listener with the table in front of the router, and with the router only. */
async function start(t: ExecutionContext, fill: (router: Router<RequestState>) => void) {
  const urls = await Promise.all(
    [true, false].map(async (hasTable) => {
      const router = new Router<RequestState>({ strict: true, sensitive: true });
      fill(router);
      const app = new Koa<RequestState>();
      const routes = router.routes();
      router.routes = () => async (ctx, next) => {
        ctx.set('x-passed-table', 'yes');
        await routes(ctx, next);
      };
      app.use(hasTable ? routeRequests(router) : router.routes());
      app.use(say('after all routes'));
      const served = await serveApp(app);
      t.teardown(() => served[Symbol.dispose]());
      return served.url;
    }),
  );
  return (method: string, path: string) =>
    Promise.all(
      urls.map(async (url) => {
        const answer = await fetch(url + path, { method, headers: { connection: 'close' } });
        const passedTable = answer.headers.has('x-passed-table');
        return { answer: { status: answer.status, body: await answer.text() }, passedTable };
      }),
    );
}

test('each path is answered as by the router, and a path without parameters is found without the router', async (t) => {
  const ask = await start(t, (router) => {
    router.get('/', say('home'));
    router.get('/v1/models', pass, say('models'));
    router.post('/v1/models', say('posted'));
    router.get('/v1/models/*model', say('one model'));
    router.get('/v1/files/:file', say('one file'));
    router.get('/v1/files/fixed', say('never reached'));
    router.get('/docs/', say('with a slash'));
    router.get('/passes', pass);
  });
  for (const [method, path, isFixed] of [
    ...[['GET', '/', true] as const, ['HEAD', '/v1/models', true] as const, ['GET', '/v1/models?a=b', true] as const],
    ...[['POST', '/v1/models', true] as const, ['DELETE', '/v1/models', false] as const],
    ...[['GET', '/v1/models/x', false] as const, ['GET', '/v1/files/x', false] as const],
    // Several routes match: the router decides which one answers.
    ['GET', '/v1/files/fixed', false] as const,
    ...[
      ['GET', '/V1/models', false] as const,
      ['GET', '/v1/models/', false] as const,
      ['GET', '/docs/', true] as const,
      ['GET', '/passes', true] as const,
    ],
    ...[['GET', '/docs', false] as const, ['GET', '/%761/models', false] as const],
  ]) {
    const [withTable, alone] = await ask(method, path);
    t.deepEqual(withTable?.answer, alone?.answer, `${method} ${path}`);
    t.is(withTable?.passedTable, !isFixed, `${method} ${path}`);
  }
});

test('a stage that fails, immediately or later, fails the stage before it, which can answer', async (t) => {
  const rescue: Stage = async (ctx, next) => {
    try {
      await next();
    } catch (error) {
      ctx.body = { rescued: String(error) };
    }
  };
  const ask = await start(t, (router) => {
    router.get('/at-once', rescue, pass, () => {
      throw new Error('at once');
    });
    router.get('/later', rescue, pass, async () => {
      throw new Error('later');
    });
  });
  for (const path of ['/at-once', '/later']) {
    const [withTable, alone] = await ask('GET', path);
    t.regex(withTable?.answer.body ?? '', /rescued/);
    t.deepEqual(withTable?.answer, alone?.answer);
  }
});
