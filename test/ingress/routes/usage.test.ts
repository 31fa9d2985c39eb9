import { once } from 'node:events';
import { connect } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import Router from '@koa/router';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import Koa from 'koa';
import { answerErrors } from '../../../ingress/middleware/answer-errors.ts';
import { cutSlowReaders } from '../../../ingress/middleware/cut-slow-readers.ts';
import type { RequestState } from '../../../ingress/request-state.ts';
import { createHourSums } from '../../../ingress/requests/hour-sums.ts';
import { usageReportSchema, usageSchema } from '../../../ingress/usage/usage-report.ts';
import { temporarilyUnavailable } from '../../../shared/errors.ts';
import { type Prices, parsePlanFile } from '../../../shared/plan-file/plan-file.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { noDetailCounts, type UsageRecord } from '../../../shared/store/usage/usage-record.ts';
import type { UsageStore } from '../../../shared/store/usage/usage-store.ts';
import type { Refusals, UsageDetail } from '../../../shared/store/usage/usage-tables.ts';
import { createSqliteHome } from '../../shared/store/sqlite-home.ts';
import { entryAt, usageRecord, usageRecords } from '../../shared/store/usage-records.ts';
import { stageOf } from '../../support/api-routes.ts';
import { planText } from '../../support/plan-text.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { asTexts, expectedRows, readCsv, sorted } from '../../support/report-side.ts';
import { serveApp } from '../../support/serve-app.ts';

type Setting = {
  now?: string;
  records?: readonly UsageRecord[];
  refusals?: readonly Refusals[];
  prices?: Prices['prices'];
  change?: (store: Store) => Pick<Store, 'accounts' | 'usage'>;
};

const atMonthEnd = new Date('2026-12-31T23:59:59.999Z');
const oneRecord = [usageRecord({ account: 'user:ann', month: '2026-12', admittedAt: atMonthEnd })];

/** A listener with the routes for a caller, at this time of Redis, and a store with usage of accounts without documents. */
async function start(
  t: ExecutionContext,
  {
    now = '2026-12-31T12:00:00.000Z',
    records = oneRecord,
    refusals = [],
    prices,
    change = (store) => store,
  }: Setting = {},
) {
  const parts = new AsyncDisposableStack();
  t.teardown(() => parts.disposeAsync());
  const home = parts.use(await createSqliteHome());
  const store = parts.use(await home.open());
  await store.usage.recordUsage(records);
  await store.usage.recordRefusals(refusals);
  const { log, lines } = recordedLog();
  const parsed = parsePlanFile(planText((plan) => Object.assign(plan, prices && { prices })));
  if ('issues' in parsed) throw new Error(JSON.stringify(parsed.issues));
  const { planFile } = parsed;
  const app = new Koa<RequestState>();
  app.use(cutSlowReaders());
  app.use(answerErrors({ log, docsUrl: '' }));
  app.use(async (ctx, next) => {
    ctx.state.caller = { account: 'user:ann', plan: 'free', suspended: false, version: 0, overageEnabled: false };
    ctx.state.now = Date.parse(now);
    ctx.state.planFile = planFile;
    await next();
  });
  app.on('error', () => {});
  const router = new Router<RequestState>();
  const changed = change(store);
  const hourSums = createHourSums({ store: changed.usage, now: () => Date.parse(now) });
  const deps = { store: changed, operators: { hourSums }, log };
  router.get('/usage', stageOf('retrieveUsage', deps));
  router.get('/accounts/:account/usage', stageOf('retrieveAccountUsage', deps));
  router.get('/all', stageOf('retrieveAllUsage', deps));
  app.use(router.routes());
  const { url } = parts.use(await serveApp(app));
  return { url, lines, ask: (path: string, init?: RequestInit) => fetch(`${url}${path}`, init) };
}

test('the month is the current one by the time of Redis, up to its last millisecond, unless one is requested', async (t) => {
  const asked = async (now: string, path: string) =>
    usageSchema.parse(await (await (await start(t, { now })).ask(path)).json());
  const [last, first] = ['2026-12-31T23:59:59.999Z', '2027-01-01T00:00:00.000Z'];
  t.like(await asked(last, '/usage'), { month: '2026-12', total: { requests: 1 }, data: [{ day: '2026-12-31' }] });
  t.like(await asked(first, '/usage'), { month: '2027-01', total: { requests: 0 }, data: { length: 0 } });
  t.like(await asked(first, '/usage?month=2026-12'), { month: '2026-12', total: { requests: 1 } });
  t.like(await asked(last, '/usage?format=json'), { month: '2026-12', total: { requests: 1 } });
});

test('an operator sees usage of an account that has nothing else, and gets 404 if there is no usage', async (t) => {
  const { ask } = await start(t);
  for (const query of ['', '?group_by=key', '?format=csv']) {
    const found = await ask(`/accounts/user:ann/usage${query}`);
    t.deepEqual(await found.text(), await (await ask(`/usage${query}`)).text());
    t.is((await ask(`/accounts/user:bob/usage${query}`)).status, 404);
  }
});

const prices = { 'small-chat': [{ from: '2026-12-02', prompt: '0.15', completion: '0.6' }] };
const many = usageRecords(200, (index) => ({
  ...{ account: `user:${['ann', 'bob', 'cem'][index % 3]}`, model: ['small-chat', 'large-chat'][index % 2] ?? '' },
  ...{ keyId: ['key_1', ''][index % 5] ?? 'key_2', promptTokens: index, cachedTokens: index % 4 },
  admittedAt: new Date(Date.UTC(2026, 10, 20 + (index % 30))),
}));

test('a report has the sums of its days with their cost, in total and by row', async (t) => {
  const { ask } = await start(t, { records: many, prices });
  const report = usageReportSchema.parse(
    await (await ask('/usage?start=2026-11-25&end=2026-12-05&group_by=key,model')).json(),
  );
  const inRange = many.filter(({ account, admittedAt }) => {
    const day = admittedAt.toISOString().slice(0, 10);
    return account === 'user:ann' && day >= '2026-11-25' && day <= '2026-12-05';
  });
  t.like(report, {
    start: '2026-11-25',
    end: '2026-12-05',
    unit: 'tokens',
    currency: 'USD',
    groupBy: ['model', 'key'],
  });
  const known = { prices, currency: 'USD' };
  const texts = report.data.map((row) => ({
    ...Object.fromEntries(Object.entries(row).map(([name, value]) => [name, String(value ?? '')])),
    currency: 'USD',
  }));
  t.deepEqual(sorted(texts), sorted(expectedRows(inRange, { groups: ['model', 'key'], ...known })));
  t.is(report.total.cost, expectedRows(inRange, { groups: [], ...known })[0]?.cost);
  t.true((report.total.unpricedTokens ?? 0) > 0);
  t.true(
    report.data.some(({ key }) => key === null),
    'usage without a key',
  );

  const without = usageReportSchema.parse(
    await (await (await start(t, { records: many })).ask('/usage?group_by=day')).json(),
  );
  t.false('cost' in without.total || 'unpricedTokens' in without.total || 'currency' in without);
});

test('a file of CSV has a header line, its name and its type', async (t) => {
  const { ask } = await start(t, { records: many, prices });
  const answer = await ask('/usage?start=2026-11-25&end=2026-12-05&format=csv');
  t.is(answer.status, 200);
  t.is(answer.headers.get('content-type'), 'text/csv; charset=utf-8; header=present');
  t.is(answer.headers.get('content-disposition'), 'attachment; filename="usage-2026-11-25-2026-12-05.csv"');
  const text = await answer.text();
  const counts = 'requests,failed,cancelled,promptTokens,cachedTokens,completionTokens,chargedTokens,overageTokens';
  t.true(text.startsWith(`day,model,${counts},cost,currency,unpricedTokens\r\n`));
  const { data } = usageReportSchema.parse(
    await (await ask('/usage?start=2026-11-25&end=2026-12-05&group_by=day,model')).json(),
  );
  const texts = data.map((row) => ({
    ...Object.fromEntries(Object.entries(row).map(([name, value]) => [name, String(value)])),
    currency: 'USD',
  }));
  t.deepEqual(sorted(readCsv(text)), sorted(texts));

  const head = await ask('/usage?start=2026-11-25&end=2026-12-05&format=csv', { method: 'HEAD' });
  t.is(head.status, 200);
  t.is(head.headers.get('content-type'), 'text/csv; charset=utf-8; header=present');
  t.is(await head.text(), '');
  const month = await ask('/usage?month=2026-11&format=csv');
  t.is(month.headers.get('content-disposition'), 'attachment; filename="usage-2026-11-01-2026-11-30.csv"');
  const empty = await (await ask('/usage?start=2020-01-01&end=2020-01-31&format=csv')).text();
  t.is(empty, `day,model,${counts},cost,currency,unpricedTokens\r\n`);
});

test('operators get the sums of all accounts, and the accounts with the most charged tokens', async (t) => {
  const { ask } = await start(t, { records: many });
  const all = usageReportSchema.parse(await (await ask('/all?start=2026-11-01&group_by=account,model')).json());
  const known = { prices: undefined, currency: 'USD' };
  const texts = all.data.map((row) => asTexts(row));
  t.deepEqual(sorted(texts), sorted(expectedRows(many, { groups: ['account', 'model'], ...known })));
  t.is(all.total.requests, many.length);

  const top = usageReportSchema.parse(await (await ask('/all?start=2026-11-01&order=charged&limit=2')).json());
  const charged = expectedRows(many, { groups: ['account'], ...known }).toSorted(
    (one, other) => Number(other.chargedTokens) - Number(one.chargedTokens),
  );
  t.deepEqual(
    top.data.map(({ account }) => account),
    charged.slice(0, 2).map(({ account }) => account),
  );
  t.is(top.total.requests, many.length);
  const csv = readCsv(await (await ask('/all?start=2026-11-01&order=charged&limit=2&format=csv')).text());
  t.deepEqual(csv, charged.slice(0, 2));
  const byKey = usageReportSchema.parse(await (await ask('/all?start=2026-11-01&group_by=day,key,endpoint')).json());
  t.is(byKey.total.chargedTokens, all.total.chargedTokens);
});

test('the hours of an account have errors, refusals and percentiles, and those of all accounts are their sums', async (t) => {
  const at = (hour: number) => new Date(Date.UTC(2026, 11, 5, hour, 30));
  const failed = { outcome: 'failed', code: 'UPSTREAMS_EXHAUSTED', status: 503, firstTokenMs: null } as const;
  const records = usageRecords(12, (index) => ({
    ...{ admittedAt: at(index % 3), account: index < 8 ? 'user:ann' : 'user:bob', entry: entryAt(index + 1) },
    ...(index % 4 === 0 ? failed : {}),
  }));
  const refusals = { account: 'user:ann', keyId: 'key_1', code: 'rate_limit_exceeded', requests: 5 };
  const entry = entryAt(20);
  const unknown = { account: '', keyId: '', code: 'INVALID_KEY', requests: 2 };
  const counted = [refusals, unknown].map((each) => ({ ...each, start: '2026-12-05T01', entry }));
  const { ask } = await start(t, { records, refusals: counted });
  const read = async (path: string) => usageReportSchema.parse(await (await ask(path)).json());

  const own = await read('/usage?start=2026-12-05T00&end=2026-12-05T01&group_by=hour');
  t.deepEqual(
    own.data.map(({ hour, requests, failed, refused, errors }) => [hour, requests, failed, refused, errors]),
    [
      ['2026-12-05T00:00:00Z', 3, 1, 0, { UPSTREAMS_EXHAUSTED: 1 }],
      ['2026-12-05T01:00:00Z', 3, 1, 5, { UPSTREAMS_EXHAUSTED: 1, rate_limit_exceeded: 5 }],
    ],
  );
  t.like(own.total, { requests: 6, refused: 5, firstTokenMs: { p50: 150, p95: 195 } });
  t.like((await read('/usage?start=2026-12-05T01&end=2026-12-05T01&group_by=model')).data, [
    { model: '-', requests: 0, refused: 5 },
    { model: 'small-chat', requests: 3, refused: 0 },
  ]);

  const all = await read('/all?start=2026-12-05T00&end=2026-12-05T23&group_by=hour,model');
  t.is(all.total.requests, 12);
  t.deepEqual(all.total.errors, { UPSTREAMS_EXHAUSTED: 3, rate_limit_exceeded: 5, INVALID_KEY: 2 });
  const byAccount = await read('/all?start=2026-12-05T01&end=2026-12-05T01&group_by=account,hour,model');
  t.deepEqual(
    byAccount.data.map(({ account, model, requests, refused, errors }) => [account, model, requests, refused, errors]),
    [
      ['-', '-', 0, 2, { INVALID_KEY: 2 }],
      ['user:ann', '-', 0, 5, { rate_limit_exceeded: 5 }],
      ['user:ann', 'small-chat', 3, 0, { UPSTREAMS_EXHAUSTED: 1 }],
      ['user:bob', 'small-chat', 1, 0, {}],
    ],
  );
  const failedFirst = await read(
    '/all?start=2026-12-05T01&end=2026-12-05T01&group_by=account,hour,model&order=failed&limit=3',
  );
  t.deepEqual(
    failedFirst.data.map(({ account, failed, refused }) => [account, failed, refused]),
    [
      ['user:ann', 1, 0],
      ['user:ann', 0, 5],
      ['-', 0, 2],
    ],
    'rows with refusals only are not the first that are left out',
  );
  const worst = await read('/all?start=2026-12-05T00&end=2026-12-05T23&group_by=account&order=failed&limit=1');
  t.like(worst, { rowCount: 3, data: [{ account: 'user:ann', requests: 8, failed: 2, refused: 5 }] });
  for (const wrong of ['start=2026-12-01T00&group_by=key', 'start=2026-11-20T00&end=2026-12-05&group_by=hour'])
    t.is((await ask(`/all?${wrong}`)).status, 400, wrong);
});

test('a report that the store cannot answer is 503, as JSON and as CSV', async (t) => {
  const { usageDetails } = countedDays(1, 0);
  const { ask } = await start(t, { change: withDetails(usageDetails) });
  for (const path of ['/usage?group_by=day', '/usage?format=csv', '/all', '/all?format=csv']) {
    const answer = await ask(path);
    t.is(answer.status, 503, path);
    t.like(await answer.json(), { code: 'SERVICE_UNAVAILABLE' });
    t.is(answer.headers.get('content-disposition'), null);
  }
});

const detail = (day: string, model: string): UsageDetail => ({
  ...{ account: 'user:ann', month: day.slice(0, 7), unit: 'day', start: day, model, keyId: 'key_1', code: '' },
  ...{ endpoint: '/v1/chat/completions', counts: { ...noDetailCounts, requests: 1 }, lastEntry: entryAt(1) },
});

/** Details of so many days with 500 models each, and how many days were read. `failAt`: the day that cannot be read. */
function countedDays(days: number, failAt = Number.POSITIVE_INFINITY, untilFailure: Promise<unknown> = nextTurn()) {
  const read = { days: 0, isEnded: false };
  async function* details(): AsyncGenerator<UsageDetail[]> {
    try {
      for (; read.days < days; read.days += 1) {
        if (read.days === failAt) {
          await untilFailure;
          throw temporarilyUnavailable(new Error('the store is away'));
        }
        const day = new Date(Date.UTC(2026, 0, 1 + read.days)).toISOString().slice(0, 10);
        yield Array.from({ length: 500 }, (_, index) => detail(day, `model-${index}`));
      }
    } finally {
      read.isEnded = true;
    }
  }
  return { read, usageDetails: { read: details, readAll: details } };
}

/** The store with other details. */
const withDetails = (usageDetails: UsageStore['details']) => (store: Store) => ({
  ...store,
  usage: { ...store.usage, details: usageDetails },
});

test('a file is read from the store no faster than its client reads it, and no further once the client has left', async (t) => {
  const { read, usageDetails } = countedDays(10_000);
  const { url } = await start(t, { change: withDetails(usageDetails) });
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname).pause();
  await once(socket, 'connect');
  socket.write('GET /usage?start=2026-01-01&end=2026-01-31&format=csv HTTP/1.1\r\nhost: x\r\n\r\n');
  // The buffers of the system take some megabytes at most: about 100 days.
  for (let before = -1; before !== read.days || read.days === 0; await settled()) before = read.days;
  t.true(read.days < 2_000, `${read.days} days were read`);
  socket.destroy();
  while (!read.isEnded) await nextTurn();
  t.true(read.days < 2_000);
});

for (const path of ['/all?order=charged', '/all?order=charged&format=csv', '/usage?group_by=model']) {
  test(`${path} reads no further once its client has left, although it is answered when all is read`, async (t) => {
    const { read, usageDetails } = countedDays(1_000_000);
    async function* inTurns(): AsyncGenerator<UsageDetail[]> {
      for await (const piece of usageDetails.read()) {
        await nextTurn();
        yield piece;
      }
    }
    const { url } = await start(t, { change: withDetails({ read: inTurns, readAll: inTurns }) });
    const leaving = new AbortController();
    const answer = fetch(`${url}${path}`, { signal: leaving.signal });
    while (read.days === 0) await nextTurn();
    leaving.abort();
    await t.throwsAsync(answer, { name: 'AbortError' });
    while (!read.isEnded) await nextTurn();
    t.true(read.days < 1_000_000);
  });
}

/** Enough turns for everything that does not wait for a client. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 2_000; turn += 1) await nextTurn();
}

for (const version of ['1.1', '1.0']) {
  test(`if the store fails midway, a client of HTTP/${version} does not get a file that looks whole`, async (t) => {
    const received = Promise.withResolvers<void>();
    const { usageDetails } = countedDays(100, 20, received.promise);
    const { url, lines } = await start(t, { change: withDetails(usageDetails) });
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname);
    socket.write(`GET /usage?start=2026-01-01&end=2026-12-31&format=csv HTTP/${version}\r\nhost: x\r\n\r\n`);
    let text = '';
    socket.on('data', (bytes) => {
      text += bytes;
      if (text.includes('2026-01-05,model-499,')) received.resolve();
    });
    let code: string | undefined;
    socket.on('error', (error: NodeJS.ErrnoException) => {
      code = error.code;
    });
    await new Promise((resolve) => socket.once('close', resolve));
    t.is(code, 'ECONNRESET');
    t.regex(text, /^HTTP\/1.1 200 /);
    t.false(text.endsWith('0\r\n\r\n'), 'the last chunk of a whole file');
    t.true(lines.some(({ message }) => message === 'a report of usage was not sent completely'));
  });
}
