import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { Registry } from 'prom-client';
import { BackendError } from '../../../shared/endpoints/answers/backend-error.ts';
import type { InferenceJob } from '../../../shared/jobs/inference-job.ts';
import type { Reply } from '../../../shared/jobs/replies.ts';
import type { CallBackend } from '../../../workers/backend-client/call-backend.ts';
import { createCallHistory } from '../../../workers/backends/call-history.ts';
import { createFindAnswer, createRetryBudget } from '../../../workers/failover/find-answer.ts';
import { type CallingRun, createRunLedger } from '../../../workers/failover/run.ts';
import { createAnswerMetrics } from '../../../workers/failover/try-backend.ts';
import { answerFor } from '../../stack/model-server.ts';
import { heldAlone } from '../../support/answer-room.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { messages, openWorkerSide, textOf, type WorkerSide } from '../../support/worker-side.ts';

let given: RedisDatabase;

test.before(async () => {
  given = await openRedisDatabase();
});

test.after.always(() => given?.[Symbol.asyncDispose]());

const names = ['onprem-a', 'onprem-b', 'cloud'];
const noRetries = { earn: () => {}, spend: () => false };

/** The last reply of a request, also if others run at the same time. */
async function lastReply(side: WorkerSide, requestId: string): Promise<Reply | undefined> {
  return (await side.stream.replies()).findLast(({ request }) => request === requestId);
}

async function ask(side: WorkerSide, job: Parameters<WorkerSide['admit']>[0] = {}): Promise<unknown> {
  const admitted = await side.admit(job);
  await side.run(admitted);
  return (await lastReply(side, admitted.requestId))?.data;
}

const exhausted = (attempted: string[]) => ({ code: 'UPSTREAMS_EXHAUSTED', fields: { tier: 'standard', attempted } });

for (const stream of [false, true]) {
  const how = stream ? 'streamed' : 'whole';

  test(`if every backend failed, each is tried once more, ${how}, and the usage record has all attempts`, async (t) => {
    await using side = await openWorkerSide(given.redis);
    for (const server of side.servers) server.fail({ status: 503, times: 1 });
    await side.run({ stream });
    t.is(textOf(await side.stream.replies()), answerFor(messages));
    t.deepEqual(side.calls(), [2, 1, 1]);
    const [record] = await side.records();
    t.deepEqual(
      record?.attempts.map(({ run, backend, outcome }) => [run, backend, outcome]),
      [...names.map((name) => [1, name, 'failed']), [1, 'onprem-a', 'answered']],
    );
    t.like(record, { outcome: 'completed', counted: 'reported' });
  });
}

test('there is no second round without a budget for it', async (t) => {
  await using side = await openWorkerSide(given.redis, { retryBudget: noRetries });
  for (const server of side.servers) server.fail({ status: 503, times: 1 });
  t.like(await ask(side), exhausted(names));
  t.deepEqual(side.calls(), [1, 1, 1]);
  t.like((await side.records())[0], { outcome: 'failed', promptTokens: 0, completionTokens: 0 });
});

test('there is no second round that could not end before the deadline', async (t) => {
  await using side = await openWorkerSide(given.redis, { timeouts: { first_token_ms: 300_000 } });
  for (const server of side.servers) server.fail({ status: 503, times: 1 });
  t.like(await ask(side, { deadline: Date.now() + 300_400 }), exhausted(names));
  t.deepEqual(side.calls(), [1, 1, 1]);
});

test('a request whose backends may not be called calls none, and lists them all', async (t) => {
  await using side = await openWorkerSide(given.redis, { retryBudget: noRetries });
  for (const server of side.servers) server.fail({ status: 401 });
  t.like(await ask(side), exhausted(names));
  t.true(side.slots.allRefuse('medium-chat'));
  const data = (await ask(side)) as { retryAfterMs: number };
  t.like(data, exhausted(names));
  t.true(data.retryAfterMs > 20_000 && data.retryAfterMs <= 30_000, String(data.retryAfterMs));
  t.deepEqual(side.calls(), [1, 1, 1]);
  t.deepEqual((await side.records()).at(-1)?.attempts, []);
});

test('a backend that may not be called is not listed as attempted if others were tried', async (t) => {
  await using side = await openWorkerSide(given.redis, { retryBudget: noRetries });
  side.servers[0].fail({ status: 401 });
  await ask(side);
  side.servers[1].fail({ status: 500 });
  side.servers[2].fail({ status: 500 });
  const data = (await ask(side)) as { fields: { attempted: string[] } };
  t.false(data.fields.attempted.includes('onprem-a'));
  t.true(data.fields.attempted.includes('cloud'));
});

test('an invalid request is no failure of the backend, even if repeated', async (t) => {
  await using side = await openWorkerSide(given.redis);
  side.servers[0].fail({ status: 422 });
  for (let requests = 0; requests < 8; requests++) t.like(await ask(side), { code: 'VALIDATION_ERROR' });
  t.deepEqual(side.calls(), [8, 0, 0]);
  t.true(side.slots.breakerStatuses().every(({ breaker }) => breaker === 'closed'));
});

test('a request waits for busy backends as for full ones, and none is called during its pause', async (t) => {
  await using side = await openWorkerSide(given.redis);
  let calls = 0;
  const busy = async () => {
    calls++;
    throw new BackendError('status', 'busy', { status: 429, said: { words: '', kinds: [] }, retryAfterMs: 60_000 });
  };
  const ask = async () =>
    findAnswerOf(side, { whole: busy, stream: busy })(runOf(await side.admit(), () => (calls < 3 ? 600_000 : 0)));
  const found = await ask();
  t.like(found, { outcome: 'exhausted', attempted: names });
  t.true(found.outcome === 'exhausted' && found.retryAfterMs > 50_000 && found.retryAfterMs <= 60_000);
  t.like(await ask(), { outcome: 'late' });
  t.is(calls, 3);
  t.true(side.slots.breakerStatuses().every(({ breaker }) => breaker === 'closed'));
});

for (const stream of [false, true]) {
  const how = stream ? 'streamed' : 'whole';

  test(`clients that leave during a call do not count against the backend, ${how}`, async (t) => {
    await using side = await openWorkerSide(given.redis);
    for (const server of side.servers) server.fail(stream ? { endless: true, chunkMs: 5 } : { hang: true });
    const calls = () => side.calls().reduce((sum, count) => sum + count);
    for (let requests = 1; requests <= 7; requests++) {
      const { controller, stop } = side.stopper();
      const job = await side.admit({ stream });
      const run = side.run(job, controller);
      if (stream) await side.stream.reply(({ kind, request }) => kind === 'chunk' && request === job.requestId);
      while (calls() < requests) await side.limits.outbox();
      stop('cancelled');
      await run;
    }
    t.is(calls(), 7);
    t.true(side.slots.breakerStatuses().every(({ breaker }) => breaker === 'closed'));
  });
}

test('an internal error while an answer is passed on is returned with what was delivered, and no other backend is called', async (t) => {
  await using side = await openWorkerSide(given.redis);
  const job = await side.admit({ stream: true });
  const event = JSON.stringify({ model: job.model, choices: [{ index: 0, delta: { content: 'one two' } }] });
  const error = new TypeError('a bug');
  const findAnswer = findAnswerOf(side, {
    whole: () => Promise.reject(error),
    async stream(_call, reader) {
      await reader.take(event);
      throw error;
    },
  });
  const run = runOf(job, () => 0);
  const { ledger } = run;
  const found = await findAnswer(run);
  t.like(found, { outcome: 'fault', error });
  t.true(((await found.received?.())?.completionTokens ?? 0) > 0);
  t.deepEqual(
    ledger.attempts().map(({ backend, outcome }) => [backend, outcome]),
    [['onprem-a', 'fault']],
  );
});

/** Asks these backends, whatever they answer. */
function findAnswerOf(side: WorkerSide, callBackend: CallBackend) {
  return createFindAnswer({
    slots: side.slots,
    retryBudget: noRetries,
    apiKeyOf: () => undefined,
    firstTokenMs: () => 30_000,
    models: () => ({}),
    ownFields: () => ({}),
    callBackend,
    metrics: createAnswerMetrics(new Registry()),
    history: createCallHistory(),
    log: recordedLog().log,
  });
}

function runOf(job: InferenceJob, mayWaitMs: () => number): CallingRun {
  return {
    job,
    ledger: createRunLedger({ run: 1, queueWaitMs: 0 }),
    lane: 'interactive',
    reply: { chunk: async () => {} },
    held: heldAlone(),
    reservation: undefined,
    signal: new AbortController().signal,
    leftMs: () => 10_000,
    mayWaitMs,
  };
}

const oneEach = { requestsAtOnce: 1 };

/** Keeps each backend busy with a request until the returned function is called. */
async function fill(side: WorkerSide) {
  const { controller, stop } = side.stopper();
  const runs: Promise<unknown>[] = [];
  for (const server of side.servers) {
    server.fail({ hang: true, times: 1 });
    runs.push(side.run({ stream: true }, controller));
    await server.waitForCall(({ state }) => state === 'running');
  }
  return async () => {
    stop('cancelled');
    await Promise.all(runs);
  };
}

test('a job waits if all backends are full, and is answered as soon as one has room', async (t) => {
  await using side = await openWorkerSide(given.redis, oneEach);
  const release = await fill(side);
  const job = await side.admit();
  const waiting = side.run(job);
  while (side.slots.waiting() === 0) await side.limits.outbox();
  t.deepEqual(side.calls(), [1, 1, 1]);
  await release();
  t.deepEqual(await waiting, { outcome: 'done' });
  t.like(await lastReply(side, job.requestId), { kind: 'end' });
});

test('a waiting job whose client leaves is not sent to a backend, and is charged nothing', async (t) => {
  await using side = await openWorkerSide(given.redis, oneEach);
  const release = await fill(side);
  const { controller, stop } = side.stopper();
  const job = await side.admit();
  const waiting = side.run(job, controller);
  while (side.slots.waiting() === 0) await side.limits.outbox();
  stop('cancelled');
  t.deepEqual(await waiting, { outcome: 'done' });
  t.deepEqual(side.calls(), [1, 1, 1]);
  const [record] = await side.records();
  t.like(record, {
    requestId: job.requestId,
    outcome: 'cancelled',
    attempts: [],
    promptTokens: 0,
    completionTokens: 0,
  });
  await release();
});

test('a waiting job is requeued when its worker stops', async (t) => {
  await using side = await openWorkerSide(given.redis, oneEach);
  const release = await fill(side);
  const { controller, stop } = side.stopper();
  const waiting = side.run({}, controller);
  while (side.slots.waiting() === 0) await side.limits.outbox();
  stop('shutdown');
  t.like(await waiting, { outcome: 'requeue', job: { earlierRuns: [{ run: 1, attempts: [] }] } });
  await release();
});

test('a job that has waited too long gets an error, and is not sent to a backend', async (t) => {
  await using side = await openWorkerSide(given.redis, oneEach);
  const release = await fill(side);
  t.like(await ask(side, { startBy: Date.now() + 300 }), { code: 'SERVICE_UNAVAILABLE', retryAfterMs: 5_000 });
  t.deepEqual(side.calls(), [1, 1, 1]);
  await release();
});

test('a client that leaves between two attempts is charged nothing, because no model has read its prompt', async (t) => {
  await using side = await openWorkerSide(given.redis, oneEach);
  const held = side.stopper();
  side.servers[0].fail({ status: 500 });
  for (const server of side.servers.slice(1)) server.fail({ hang: true });
  const others = [side.run({ stream: true }, held.controller)];
  await side.servers[1].waitForCall(({ state }) => state === 'running');
  others.push(side.run({ stream: true }, held.controller));
  await side.servers[2].waitForCall(({ state }) => state === 'running');

  const { controller, stop } = side.stopper();
  const job = await side.admit();
  const run = side.run(job, controller);
  while (side.slots.waiting() === 0) await side.limits.outbox();
  stop('cancelled');
  await run;
  const record = (await side.records()).find(({ requestId }) => requestId === job.requestId);
  t.like(record, { outcome: 'cancelled', promptTokens: 0, completionTokens: 0 });
  held.stop('cancelled');
  await Promise.all(others);
});

test('a backend that is silent until the deadline and fails its health test has failed, also for whole answers', async (t) => {
  await using side = await openWorkerSide(given.redis, { timeouts: { first_token_ms: 1 }, test: async () => false });
  for (const server of side.servers) server.fail({ hang: true });
  const { controller, stop } = side.stopper();
  const jobs = await Promise.all(Array.from({ length: 15 }, () => side.admit()));
  const runs = jobs.map((job) => side.run(job, controller));
  const called = () => new Set(side.servers.flatMap((server) => server.calls().map(({ requestId }) => requestId)));
  while (called().size < jobs.length) await side.limits.outbox();
  await sleep(5); // more than `first_token_ms`
  stop('deadline');
  await Promise.all(runs);
  for (const { requestId } of jobs) {
    t.like((await lastReply(side, requestId))?.data, { code: 'DEADLINE_EXCEEDED' });
  }
  const open = side.slots.breakerStatuses().filter(({ breaker }) => breaker === 'open');
  t.deepEqual(
    open.map(({ backend, model }) => [model, backend]),
    [
      ['medium-chat', 'onprem-a'],
      ['medium-chat', 'onprem-b'],
    ],
  );
});

test('a fifth of all requests may try again, plus ten saved from quiet times', (t) => {
  const budget = createRetryBudget();
  let spent = 0;
  for (let requests = 0; requests < 1_000; requests++) {
    budget.earn();
    if (budget.spend()) spent++;
  }
  t.true(spent >= 208 && spent <= 210, `${spent} of 1,000`);
});

test('the saved budget is bounded', (t) => {
  const budget = createRetryBudget();
  for (let requests = 0; requests < 1_000; requests++) budget.earn();
  let spent = 0;
  while (budget.spend()) spent++;
  t.is(spent, 10);
});
