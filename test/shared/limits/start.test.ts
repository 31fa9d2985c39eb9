import test from 'ava';
import { Redis } from 'ioredis';
import { createStartRun } from '../../../shared/limits/start.ts';
import { requestRunsKey } from '../../../shared/redis-keys.ts';
import { type PrivateRedis, startPrivateRedis } from '../../support/private-redis.ts';
import { replaceClock } from '../../support/redis-clock.ts';

let own: PrivateRedis;
let startRun: ReturnType<typeof createStartRun>;
let setTime: (nowMs: number) => Promise<void>;

test.before(async () => {
  own = await startPrivateRedis();
  setTime = replaceClock(own.redis);
  startRun = createStartRun(own.redis);
});

test.after.always(async () => {
  await own?.[Symbol.asyncDispose]();
});

const now = Math.floor(Date.now() / 1_000) * 1_000 + 500;
const startBy = now + 30_000;
const deadline = now + 600_000;
let requests = 0;

/** A job of its own for each test, that nobody has started. */
const freshJob = () => ({ account: 'user:alice', requestId: `req_${requests++}`, startBy, deadline });

test.serial('the first start is run 1 and says what time is left', async (t) => {
  await setTime(now);
  t.deepEqual(await startRun({ ...freshJob(), execution: 'a' }), {
    outcome: 'run',
    run: 1,
    now,
    remainingMs: 600_000,
  });
});

test.serial('a first start is in time up to startBy itself, and late from the millisecond after', async (t) => {
  for (const [time, outcome] of [
    [startBy - 1, 'run'],
    [startBy, 'run'],
    [startBy + 1, 'late'],
  ] as const) {
    await setTime(time);
    const job = freshJob();
    t.like(await startRun({ ...job, execution: 'a' }), { outcome, run: 1 }, String(time - startBy));
    const written = await own.redis.exists(requestRunsKey(job.account, job.requestId));
    t.is(written, outcome === 'run' ? 1 : 0);
  }
});

test.serial('a request is over from its deadline on, whether it was started before or not', async (t) => {
  for (const [time, outcome] of [
    [deadline - 1, 'run'],
    [deadline, 'expired'],
    [deadline + 1, 'expired'],
  ] as const) {
    const [started, unstarted] = [freshJob(), { ...freshJob(), startBy: deadline + 10 }];
    await setTime(now);
    await startRun({ ...started, execution: 'a' });
    await setTime(time);
    t.like(await startRun({ ...started, execution: 'b' }), { outcome, run: 2 }, String(time - deadline));
    t.like(await startRun({ ...unstarted, execution: 'a' }), { outcome, run: 1 }, String(time - deadline));
  }
});

test.serial('a second execution is run 2, however late, and the next is run 3', async (t) => {
  const job = freshJob();
  await setTime(now);
  t.like(await startRun({ ...job, execution: 'a' }), { outcome: 'run', run: 1 });
  await setTime(startBy + 60_000);
  t.deepEqual(await startRun({ ...job, execution: 'b' }), {
    outcome: 'run',
    run: 2,
    now: startBy + 60_000,
    remainingMs: deadline - startBy - 60_000,
  });
  t.like(await startRun({ ...job, execution: 'c' }), { outcome: 'run', run: 3 });
});

test.serial('the same execution asking again is counted once, at whatever time', async (t) => {
  const job = freshJob();
  await setTime(startBy);
  const first = await startRun({ ...job, execution: 'a' });
  t.deepEqual(await startRun({ ...job, execution: 'a' }), first);
  await setTime(startBy + 5);
  t.like(await startRun({ ...job, execution: 'a' }), { outcome: 'run', run: 1 });
  t.like(await startRun({ ...job, execution: 'b' }), { outcome: 'run', run: 2 });
});

test.serial('requests are counted apart, also those of one account', async (t) => {
  await setTime(now);
  const [one, other] = [freshJob(), freshJob()];
  await startRun({ ...one, execution: 'a' });
  t.like(await startRun({ ...other, execution: 'a' }), { outcome: 'run', run: 1 });
  t.like(await startRun({ ...one, account: 'user:bob', execution: 'b' }), { outcome: 'run', run: 1 });
});

test.serial('what is remembered goes a minute after the deadline', async (t) => {
  const job = freshJob();
  const key = requestRunsKey(job.account, job.requestId);
  await setTime(now);
  await startRun({ ...job, execution: 'a' });
  t.is(await own.redis.pexpiretime(key), deadline + 60_000);
  await startRun({ ...job, execution: 'b' });
  t.is(await own.redis.pexpiretime(key), deadline + 60_000);
});

test.serial('without a replaced clock the time is that of Redis', async (t) => {
  const plain = new Redis(own.server.url);
  t.teardown(() => plain.disconnect());
  const job = freshJob();
  const start = await createStartRun(plain)({ ...job, execution: 'a', startBy: now * 2, deadline: now * 2 });
  if (start.outcome !== 'run') return t.fail(start.outcome);
  const [seconds, microseconds] = (await plain.time()).map(Number);
  const after = (seconds ?? 0) * 1_000 + Math.floor((microseconds ?? 0) / 1_000);
  t.true(start.now <= after && start.now > after - 60_000);
  t.is(start.remainingMs, now * 2 - start.now);
});

test.serial('runs also when Redis is out of memory', async (t) => {
  await setTime(now);
  await own.redis.config('SET', 'maxmemory', '1');
  t.teardown(() => own.redis.config('SET', 'maxmemory', '0'));
  await t.throwsAsync(own.redis.set('anything', 'else'), { message: /OOM/ });
  const job = freshJob();
  t.like(await startRun({ ...job, execution: 'a' }), { outcome: 'run', run: 1 });
  t.like(await startRun({ ...job, execution: 'b' }), { outcome: 'run', run: 2 });
});
