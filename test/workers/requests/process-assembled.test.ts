import test from 'ava';
import { countPromptTokens, countTokens } from '../../../workers/failover/count-tokens.ts';
import { answerFor, type Fault, promptTokensOf } from '../../stack/model-server.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { rawAnswer, startRawBackend } from '../../support/raw-backend.ts';
import { kindsOf, messages, openWorkerSide, textOf } from '../../support/worker-side.ts';

let given: RedisDatabase;

test.before(async () => {
  given = await openRedisDatabase();
});

test.after.always(() => given?.[Symbol.asyncDispose]());

const expected = answerFor(messages);
const short = { first_token_ms: 1_000, idle_ms: 1_000 };
/** Only a time limit ends it. */
const fallsSilent = (fault: object) => 'hang' in fault || 'stallAfterChunks' in fault;

test('an assembled answer is one reply with the reported usage, and the time of its first token is recorded', async (t) => {
  await using side = await openWorkerSide(given.redis);
  t.like(await side.run({ assembled: true }), { outcome: 'done' });
  const replies = await side.stream.replies();
  t.deepEqual(kindsOf(replies), ['end']);
  t.is(textOf(replies), expected);
  t.like(replies.at(-1)?.data, { usage: { promptTokens: promptTokensOf(messages), estimated: false } });
  t.like(side.servers[0].calls()[0], { stream: true, state: 'completed' });
  const [record] = await side.records();
  t.like(record, { outcome: 'completed', counted: 'reported' });
  t.is(typeof record?.firstTokenMs, 'number');
});

const faults: Fault[] = [
  ...[{ hang: true }, { stallAfterChunks: 0 }, { stallAfterChunks: 3 }, { badEvents: true }, { status: 500 }],
  ...[{ cutAfterChunks: 0 }, { cutAfterChunks: 3 }, { endAfterChunks: 0 }, { endAfterChunks: 3 }],
];

for (const fault of faults) {
  test(`${JSON.stringify(fault)}: the next backend answers, because nothing of a whole answer was sent`, async (t) => {
    await using side = await openWorkerSide(given.redis, { timeouts: fallsSilent(fault) ? short : {} });
    side.servers[0].fail(fault);
    t.like(await side.run({ assembled: true }), { outcome: 'done' });
    const replies = await side.stream.replies();
    t.deepEqual(kindsOf(replies), ['end']);
    t.is(textOf(replies), expected);
    t.deepEqual(side.calls(), [1, 1, 0]);
    const [record] = await side.records();
    t.like(record, { outcome: 'completed', promptTokens: promptTokensOf(messages) });
  });
}

test('if every backend breaks off, the request fails as UPSTREAMS_EXHAUSTED, and is charged nothing', async (t) => {
  await using side = await openWorkerSide(given.redis);
  for (const server of side.servers) server.fail({ cutAfterChunks: 3 });
  t.like(await side.run({ assembled: true }), { outcome: 'done' });
  t.like((await side.stream.replies()).at(-1)?.data, { code: 'UPSTREAMS_EXHAUSTED' });
  t.like((await side.records())[0], { outcome: 'failed', chargedTokens: 0 });
});

test('a client that leaves during the answer is charged what was produced, and its call ends', async (t) => {
  await using side = await openWorkerSide(given.redis);
  side.servers[0].fail({ endless: true, chunkMs: 5 });
  const { controller, stop } = side.stopper();
  const outcome = side.run({ assembled: true }, controller);
  await side.servers[0].waitForCall(({ chunksSent }) => chunksSent > 5);
  stop('cancelled');
  t.like(await outcome, { outcome: 'done' });
  t.is((await side.servers[0].waitForCall(({ state }) => state !== 'running')).state, 'aborted');
  const promptTokens = await countPromptTokens({
    endpoint: '/v1/chat/completions',
    payload: JSON.stringify({ messages }),
  });
  const [record] = await side.records();
  t.like(record, { outcome: 'cancelled', counted: 'estimated', promptTokens });
  t.true((record?.completionTokens ?? 0) >= 5, `${record?.completionTokens} tokens`);
  t.is(record?.chargedTokens, promptTokens + (record?.completionTokens ?? 0));
  t.deepEqual(side.calls(), [1, 0, 0]);
});

test('an assembled answer that is too large is charged what came of it', async (t) => {
  const written = 'one two three';
  const choices = [{ index: 0, delta: { content: written }, finish_reason: null }];
  const chunks = [{ choices }, { choices: [], padding: 'x'.repeat(4_194_304) }];
  const text = chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('');
  await using large = await startRawBackend((socket) => socket.end(rawAnswer(text)));
  await using side = await openWorkerSide(given.redis, { url: large.url });
  await side.run({ assembled: true });
  const [record] = await side.records();
  t.like(record, { outcome: 'failed', counted: 'estimated', completionTokens: await countTokens(written) });
  t.is(record?.attempts[0]?.outcome, 'too_large');
});

test('a shutdown during the answer requeues the job, and another run answers', async (t) => {
  await using side = await openWorkerSide(given.redis);
  side.servers[0].fail({ endless: true, chunkMs: 5 });
  const { controller, stop } = side.stopper();
  const outcome = side.run({ assembled: true }, controller);
  await side.servers[0].waitForCall(({ chunksSent }) => chunksSent > 5);
  stop('shutdown');
  const requeued = await outcome;
  if (requeued.outcome !== 'requeue') return t.fail();
  t.true(requeued.job.assembled);
  side.servers[0].heal();
  t.like(await side.run(requeued.job), { outcome: 'done' });
  t.is(textOf(await side.stream.replies()), expected);
});
