import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import { leaseEndsKey, leasesKey } from '../../../shared/redis/keys.ts';
import { type Report, reportSchema, type Task } from '../../support/limits-client.ts';
import { openLimits } from '../../support/limits-side.ts';
import { type PrivateRedis, startPrivateRedis } from '../../support/private-redis.ts';
import { replaceClock } from '../../support/redis-clock.ts';
import { sized } from '../../support/size.ts';

const processes = 4;
const clients = 50;
const attempts = sized(1_000, 2_000);
const requestsPerMinute = attempts / 10;
const tokensPerMonth = 25 * attempts;
const program = fileURLToPath(new URL('../../support/limits-clients.ts', import.meta.url));

let own: PrivateRedis;
let children: ChildProcess[] = [];
let accounts = 0;

test.before(async () => {
  own = await startPrivateRedis();
  // The clock does not move, so that a run of any duration is within one minute of one month.
  await replaceClock(own.redis)(Date.UTC(2030, 4, 15, 12));
  children = Array.from({ length: processes }, () => fork(program, { execArgv: [] }));
});

test.after.always(async () => {
  for (const child of children) child.kill();
  await own?.[Symbol.asyncDispose]();
});

const deliveries = [
  { delivery: 'once', how: '' },
  { delivery: 'twice', how: ', each call delivered twice' },
  { delivery: 'cut', how: ', with lost replies and repeated calls' },
] as const;

for (const { delivery, how } of deliveries) {
  test.serial(`of thousands of requests from 4 processes exactly the limit per minute is admitted${how}`, async (t) => {
    t.timeout(120_000);
    const { side, reports, executed } = await runAll({ delivery, allowance: { requestsPerMinute } });
    t.is(total(reports, 'admitted'), requestsPerMinute);
    t.is(total(reports, 'refused'), attempts - requestsPerMinute);
    t.like(await side.counters(), { dayRequests: requestsPerMinute, lastMinute: { requests: requestsPerMinute } });
    t.is(await own.redis.hlen(leasesKey(side.account)), requestsPerMinute);
    checkDelivery(t, { delivery, reports, executed });
  });

  test.serial(`a month is overspent by less than one request, and used is what was settled${how}`, async (t) => {
    t.timeout(120_000);
    const given = { delivery, allowance: { tokensPerMonth }, settled: { short: 0 } };
    const { side, reports, executed } = await runAll(given);
    const used = await checkUsed(t, side, reports);
    const reservedMax = Math.max(...reports.map((report) => report.reservedMax));
    t.true(used < tokensPerMonth + reservedMax, `${used} used`);
    t.true(used > tokensPerMonth * 0.9, `${used} used`);
    t.true(total(reports, 'refused') > attempts / 20, 'the month was spent long before the end');
    checkDelivery(t, { delivery, reports, executed });
  });
}

test.serial(
  'requests that use more than they reserved overspend by at most the excess of those in flight',
  async (t) => {
    t.timeout(120_000);
    const given = { delivery: 'once', allowance: { tokensPerMonth }, settled: { short: 0.5 } } as const;
    const { side, reports } = await runAll(given);
    const used = await checkUsed(t, side, reports);
    const shorts = reports.flatMap((report) => report.shorts).sort((one, other) => other - one);
    t.true(shorts.length > attempts / 80, `${shorts.length} were short`);
    const inFlight = shorts.slice(0, processes * clients).reduce((sum, short) => sum + short, 0);
    t.true(used < tokensPerMonth + Math.max(...reports.map((report) => report.reservedMax)) + inFlight, `${used} used`);
  },
);

/** Runs all clients of all processes at once. `executed` is the number of calls that Redis carried out for them. */
async function runAll(given: Pick<Task, 'delivery' | 'allowance' | 'settled'>) {
  const side = openLimits(own.redis, { account: `user:${accounts++}` });
  await side.prepare('2030-05');
  const task: Task = { ...given, url: own.server.url, account: side.account, attempts: attempts / processes / clients };
  const ready = children.map((child) => messageOf(child));
  for (const [index, child] of children.entries()) child.send({ task, clients, process: index });
  await Promise.all(ready);
  const before = await scriptCalls();
  const ended = children.map((child) => messageOf(child));
  for (const child of children) child.send('go');
  const reports: Report[] = reportSchema.array().parse((await Promise.all(ended)).flat());
  return { side, reports, executed: (await scriptCalls()) - before };
}

async function messageOf(child: ChildProcess): Promise<unknown> {
  const ended = new AbortController();
  const died = () => ended.abort(new Error('a process ended before its clients did'));
  child.once('exit', died);
  try {
    const [message] = await once(child, 'message', { signal: ended.signal });
    return message;
  } finally {
    child.off('exit', died);
  }
}

async function scriptCalls(): Promise<number> {
  const stats = await own.redis.info('commandstats');
  const calls = [...stats.matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+).*failed_calls=(\d+)/gm)];
  return calls.reduce((sum, [, made, failed]) => sum + Number(made) - Number(failed), 0);
}

type Delivered = { delivery: Task['delivery']; reports: readonly Report[]; executed: number };

/** A run without a lost reply or without a repeated call would prove nothing about either. */
function checkDelivery(t: ExecutionContext, { delivery, reports, executed }: Delivered): void {
  t.deepEqual(
    reports.flatMap(({ faults }) => faults),
    [],
  );
  const answered = total(reports, 'answered');
  t.log(`${executed} calls carried out, ${answered} answered, ${total(reports, 'admitted')} admitted`);
  t.true(delivery === 'cut' ? executed > answered + attempts / 40 : executed >= answered);
  t.true(delivery === 'twice' ? answered >= 2 * attempts : answered >= attempts);
}

/** Redis, the clients' settlements and the outbox agree, and nothing is held. */
async function checkUsed(t: ExecutionContext, side: ReturnType<typeof openLimits>, reports: readonly Report[]) {
  const { chargedTokens: used, reservedTokens: reserved } = await side.counters();
  const outbox = (await side.outbox()).filter(({ account }) => account === side.account);
  t.is(used, total(reports, 'settledTokens'));
  t.is(
    used,
    outbox.reduce((sum, { chargedTokens }) => sum + chargedTokens, 0),
  );
  t.is(outbox.length, total(reports, 'admitted'));
  t.is(new Set(outbox.map(({ requestId }) => requestId)).size, outbox.length);
  t.is(reserved, 0);
  t.is(await own.redis.exists(leasesKey(side.account), leaseEndsKey(side.account)), 0);
  const { before, after } = await side.seed('2030-05', 'compare');
  t.deepEqual(after, before);
  return used;
}

type Count = 'admitted' | 'refused' | 'answered' | 'settledTokens';
const total = (reports: readonly Report[], name: Count) => reports.reduce((sum, report) => sum + report[name], 0);
