import { setImmediate as turn } from 'node:timers/promises';
import { inspect } from 'node:util';
import test from 'ava';
import { leaseEndsKey } from '../../../shared/redis/keys.ts';
import { countPromptTokens } from '../../../workers/failover/count-tokens.ts';
import { answerFor } from '../../stack/model-server.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { kindsOf, messages, openWorkerSide, textOf, type WorkerSide } from '../../support/worker-side.ts';

let given: RedisDatabase;

test.before(async () => {
  given = await openRedisDatabase();
});

test.after.always(() => given?.[Symbol.asyncDispose]());

/** A run whose backend was called and has not answered yet. */
async function runHanging(side: WorkerSide, { stream = false, deadline = Date.now() + 60_000 } = {}) {
  side.servers[0].fail({ hang: true });
  const { controller, stop } = side.stopper();
  const outcome = side.run({ stream, deadline }, controller);
  await side.servers[0].waitForCall(({ state }) => state === 'running');
  return { outcome, stop };
}

/** A run that has sent a part of an endless stream. */
async function runStreaming(side: WorkerSide, { deadline = Date.now() + 60_000 } = {}) {
  side.servers[0].fail({ endless: true, chunkMs: 5 });
  const { controller, stop } = side.stopper();
  const outcome = side.run({ stream: true, deadline }, controller);
  await side.stream.reply(({ kind }) => kind === 'chunk');
  return { outcome, stop };
}

async function stateOfCall({ servers: [server] }: WorkerSide): Promise<string> {
  return (await server.waitForCall(({ state }) => state !== 'running')).state;
}

for (const stream of [false, true]) {
  const how = stream ? 'streamed' : 'whole';

  test(`the deadline ends a run that has sent nothing, ${how}`, async (t) => {
    await using side = await openWorkerSide(given.redis);
    const { outcome } = await runHanging(side, { stream, deadline: Date.now() + 2_000 });
    t.like(await outcome, { outcome: 'done' });
    const replies = await side.stream.replies();
    t.deepEqual(kindsOf(replies), ['error']);
    t.like(replies.at(-1)?.data, { code: 'DEADLINE_EXCEEDED' });
    t.is(await stateOfCall(side), 'aborted');
    t.deepEqual(side.calls(), [1, 0, 0]);
  });

  test(`a shutdown requeues a job whose run has sent nothing, ${how}, and another run answers`, async (t) => {
    await using side = await openWorkerSide(given.redis);
    const { outcome, stop } = await runHanging(side, { stream });
    stop('shutdown');
    t.deepEqual(kindsOf(await side.stream.replies()), []);
    t.is(await stateOfCall(side), 'aborted');
    t.deepEqual(side.calls(), [1, 0, 0]);

    const requeued = await outcome;
    if (requeued.outcome !== 'requeue') return t.fail();
    t.deepEqual(await side.records(), [], 'it has not ended');
    const [, leaseEnd] = await given.redis.zrange(leaseEndsKey(side.limits.account), '0', '0', 'WITHSCORES');
    t.true(Number(leaseEnd) > Date.now() + 85_000, 'its lease covers the wait of a new request, and a minute');
    side.servers[0].heal();
    t.like(await side.run(requeued.job), { outcome: 'done' });
    t.is(textOf(await side.stream.replies()), answerFor(messages));
    const [record] = await side.records();
    t.like(record, { outcome: 'completed', runs: 2 });
    t.deepEqual(
      record?.attempts.map(({ run, outcome }) => [run, outcome]),
      [
        [1, 'stopped'],
        [2, 'answered'],
      ],
    );
  });

  test(`a run whose lock is lost ends its call, ${how}, sends nothing and settles nothing`, async (t) => {
    await using side = await openWorkerSide(given.redis);
    const { outcome, stop } = await runHanging(side, { stream });
    stop('lock lost');
    t.like(await outcome, { outcome: 'done' });
    t.deepEqual(kindsOf(await side.stream.replies()), []);
    t.is(await stateOfCall(side), 'aborted');
    t.deepEqual(side.calls(), [1, 0, 0]);
    t.deepEqual(await side.records(), []);
  });

  const produced = stream ? 'what was produced' : 'its whole limit, because what was produced is not known';
  test(`a cancelled run ends its call, ${how}, and is charged its prompt and ${produced}`, async (t) => {
    await using side = await openWorkerSide(given.redis);
    const { outcome, stop } = await runHanging(side, { stream });
    stop('cancelled');
    t.like(await outcome, { outcome: 'done' });
    t.deepEqual(kindsOf(await side.stream.replies()), ['error']);
    t.is(await stateOfCall(side), 'aborted');
    t.deepEqual(side.calls(), [1, 0, 0]);
    const [record] = await side.records();
    const promptTokens = await countPromptTokens({
      endpoint: '/v1/chat/completions',
      payload: JSON.stringify({ messages }),
    });
    const completionTokens = stream ? 0 : 4_096;
    t.like(record, { outcome: 'cancelled', counted: 'estimated', promptTokens, completionTokens });
    t.is(record?.chargedTokens, promptTokens + completionTokens);
    t.like(record?.attempts, [{ run: 1, backend: 'onprem-a', outcome: 'stopped' }]);
  });

  test(`a run whose ingress is gone from the start aborts its call, ${how}`, async (t) => {
    await using side = await openWorkerSide(given.redis);
    side.servers[0].fail({ hang: true });
    t.like(await side.run({ stream, replyTo: 'svc:replies:no-reader' }), { outcome: 'done' });
    t.true(side.servers[0].calls().every(({ state }) => state !== 'completed'));
    t.deepEqual(side.calls().slice(1), [0, 0]);
    t.is(await given.redis.exists('svc:replies:no-reader'), 0);
  });

  test(`a run that was stopped before it began calls no backend, ${how}`, async (t) => {
    await using side = await openWorkerSide(given.redis);
    const { controller, stop } = side.stopper();
    stop('shutdown');
    t.like(await side.run({ stream }, controller), { outcome: 'requeue' });
    t.deepEqual(side.calls(), [0, 0, 0]);
  });
}

test('a run that is cancelled while it waits for a slot, after its calls have failed, is charged nothing', async (t) => {
  await using side = await openWorkerSide(given.redis, { requestsAtOnce: 1 });
  side.servers[0].fail({ status: 500 });
  for (const taken of ['onprem-b', 'cloud']) {
    const tried = new Set(['onprem-a', 'onprem-b', 'cloud'].filter((name) => name !== taken));
    const signal = new AbortController().signal;
    const ask = { model: 'medium-chat', lane: 'interactive', holder: 'user:b', tried, promptTokensMin: 0 } as const;
    const room = await side.slots.take({ ...ask, waitMs: 0, signal });
    t.is(room.outcome, 'slot');
  }
  const { controller, stop } = side.stopper();
  const outcome = side.run({}, controller);
  while (!side.lines.some(({ message }) => message === 'a backend failed')) await turn();
  stop('cancelled');
  t.like(await outcome, { outcome: 'done' });
  t.deepEqual(side.calls(), [1, 0, 0]);
  const [record] = await side.records();
  t.like(record, { outcome: 'cancelled', promptTokens: 0, completionTokens: 0, chargedTokens: 0 });
  t.like(record?.attempts, { 0: { backend: 'onprem-a', outcome: 'failed' }, length: 1 });
});

test('the deadline ends a stream that has begun with its error code', async (t) => {
  await using side = await openWorkerSide(given.redis);
  const { outcome } = await runStreaming(side, { deadline: Date.now() + 4_000 });
  t.like(await outcome, { outcome: 'done' });
  const replies = await side.stream.replies();
  t.deepEqual(kindsOf(replies), ['chunk', 'error']);
  t.like(replies.at(-1)?.data, { code: 'DEADLINE_EXCEEDED' });
  t.is(await stateOfCall(side), 'aborted');
});

test('a shutdown ends a stream that has begun, because sent text cannot be taken back', async (t) => {
  await using side = await openWorkerSide(given.redis);
  const { outcome, stop } = await runStreaming(side);
  stop('shutdown');
  t.like(await outcome, { outcome: 'done' });
  const replies = await side.stream.replies();
  t.deepEqual(kindsOf(replies), ['chunk', 'error']);
  t.like(replies.at(-1)?.data, { code: 'UPSTREAM_INTERRUPTED' });
  t.deepEqual(side.calls(), [1, 0, 0]);
});

test('a cancelled stream has no end, and its call is aborted', async (t) => {
  await using side = await openWorkerSide(given.redis);
  const { outcome, stop } = await runStreaming(side);
  stop('cancelled');
  t.like(await outcome, { outcome: 'done' });
  t.deepEqual(kindsOf(await side.stream.replies()), ['chunk', 'error']);
  const [record] = await side.records();
  t.like(record, { outcome: 'cancelled', counted: 'estimated' });
  t.true((record?.completionTokens ?? 0) > 0, 'what was received is charged');
  t.is(record?.chargedTokens, (record?.promptTokens ?? 0) + (record?.completionTokens ?? 0));
  t.is(await stateOfCall(side), 'aborted');
  t.deepEqual(side.calls(), [1, 0, 0]);
});

test('the call of a stream whose ingress disappears is aborted', async (t) => {
  await using side = await openWorkerSide(given.redis);
  const { outcome } = await runStreaming(side);
  await given.redis.del(side.stream.key);
  t.like(await outcome, { outcome: 'done' });
  t.is(await stateOfCall(side), 'aborted');
  t.is(await given.redis.exists(side.stream.key), 0);
  t.deepEqual(side.calls(), [1, 0, 0]);
});

test('a client that leaves an answer that generates nothing is charged its prompt', async (t) => {
  await using side = await openWorkerSide(given.redis);
  side.servers[0].fail({ hang: true });
  const { controller, stop } = side.stopper();
  const body = JSON.stringify({ input: ['a', 'b'] });
  const job = await side.admit({ endpoint: '/v1/embeddings', payload: body, outputTokensMax: 0, promptEstimate: 10 });
  const outcome = side.run(job, controller);
  await side.servers[0].waitForCall(({ state }) => state === 'running');
  stop('cancelled');
  await outcome;
  t.like((await side.records())[0], { outcome: 'cancelled', promptTokens: 5, completionTokens: 0, chargedTokens: 5 });
});

test('the call of a whole answer whose ingress disappears is aborted, although it sends nothing before its end', async (t) => {
  await using side = await openWorkerSide(given.redis);
  const { outcome } = await runHanging(side);
  await given.redis.del(side.stream.key);
  t.like(await outcome, { outcome: 'done' });
  t.is(await stateOfCall(side), 'aborted');
  t.like((await side.records())[0], { outcome: 'cancelled', counted: 'estimated', completionTokens: 4_096 });
});

test('a run is measured by its outcome at each backend', async (t) => {
  await using side = await openWorkerSide(given.redis);
  const { outcome, stop } = await runHanging(side);
  stop('cancelled');
  await outcome;
  side.servers[0].fail({ status: 500 });
  await side.run();
  const { values } = (await side.registry.getSingleMetric('svc_backend_attempts_total')?.get()) ?? { values: [] };
  t.deepEqual(
    values.map(({ labels, value }) => [labels.backend, labels.outcome, value]),
    [
      ['onprem-a', 'stopped', 1],
      ['onprem-a', 'failed', 1],
      ['onprem-b', 'answered', 1],
    ],
  );
});

test("no log line contains the client's text or the answer", async (t) => {
  await using side = await openWorkerSide(given.redis);
  side.servers[0].fail({ status: 500, errorMessage: 'Grüße are not understood' });
  side.servers[1].fail({ garbage: 'json' });
  side.servers[2].fail({ badEvents: true });
  await side.run({ stream: true });
  await side.run();
  t.true(side.lines.length > 0);
  const text = side.lines.map(({ fields, message }) => message + inspect(fields)).join('\n');
  t.regex(text, /onprem-b/);
  t.notRegex(text, /Grüße|東京|html|"choices"/);
});
