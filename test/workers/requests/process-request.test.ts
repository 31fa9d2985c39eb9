import test from 'ava';
import type { InferenceJob } from '../../../shared/jobs/inference-job.ts';
import { countPromptTokens, countTokens } from '../../../workers/failover/count-tokens.ts';
import { answerFor, type Fault, promptTokensOf } from '../../stack/model-server.ts';
import { streamEvents } from '../../support/chat.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { rawAnswer, startRawBackend } from '../../support/raw-backend.ts';
import { chunksOf, kindsOf, messages, openWorkerSide, textOf } from '../../support/worker-side.ts';

let given: RedisDatabase;

test.before(async () => {
  given = await openRedisDatabase();
});

test.after.always(() => given?.[Symbol.asyncDispose]());

const expected = answerFor(messages);
const short = { first_token_ms: 1_000, idle_ms: 1_000 };
/** Only a time limit ends it. */
const fallsSilent = (fault: object) => 'hang' in fault || 'stallAfterChunks' in fault;

for (const stream of [false, true]) {
  const how = stream ? 'streamed' : 'whole';

  test(`answers ${how}: the text and the usage that the backend reported, then the end`, async (t) => {
    await using side = await openWorkerSide(given.redis);
    t.like(await side.run({ stream }), { outcome: 'done' });
    const replies = await side.stream.replies();
    t.deepEqual(kindsOf(replies), stream ? ['chunk', 'end'] : ['end']);
    // A whole answer can end before its start was sent.
    if (stream) t.like(replies[0], { run: 1, data: { control: 'svc:control:test' } });
    t.is(textOf(replies), expected);
    const end = replies.at(-1);
    t.like(end?.data, { usage: { promptTokens: promptTokensOf(messages), estimated: false } });
    t.false(chunksOf(replies).includes('usage'));
    t.deepEqual(side.calls(), [1, 0, 0]);
    t.like(side.servers[0].calls()[0], { model: 'medium-chat', state: 'completed' });
  });

  test(`counts the usage if none was reported, ${how}, and marks it as estimated`, async (t) => {
    await using side = await openWorkerSide(given.redis);
    side.servers[0].fail({ noUsage: true });
    const job = await side.admit({ stream, includeUsage: stream });
    await side.run(job);
    const replies = await side.stream.replies();
    const counted = {
      promptTokens: await countPromptTokens({ endpoint: '/v1/chat/completions', payload: job.payload }),
      completionTokens: await countTokens(expected),
    };
    t.like(replies.at(-1)?.data, { usage: { ...counted, estimated: true } });
    const last = stream ? streamEvents(chunksOf(replies)).at(-1) : bodyOf(replies.at(-1)?.data);
    t.like(last, { usage: { prompt_tokens: counted.promptTokens, completion_tokens: counted.completionTokens } });
  });

  test(`the next backend answers if the first failed before its first token, ${how}`, async (t) => {
    const faults: Fault[] = [
      { status: 500 },
      { status: 404 },
      { resetBeforeHeaders: true },
      { garbage: 'http' },
      { garbage: 'json' },
    ];
    const only: Fault[] = stream
      ? [{ hang: true }, { stallAfterChunks: 0 }, { endAfterChunks: 0 }, { badEvents: true }]
      : [{ cutAfterChunks: 5 }];
    for (const fault of [...faults, ...only]) {
      await using side = await openWorkerSide(given.redis, { timeouts: fallsSilent(fault) ? short : {} });
      side.servers[0].fail(fault);
      t.like(await side.run({ stream }), { outcome: 'done' });
      const replies = await side.stream.replies();
      t.deepEqual(kindsOf(replies), stream ? ['chunk', 'end'] : ['end'], JSON.stringify(fault));
      t.is(textOf(replies), expected);
      t.deepEqual(side.calls(), [1, 1, 0]);
    }
  });

  test(`the cloud is called last, with its own name for the model, which the client does not see, ${how}`, async (t) => {
    await using side = await openWorkerSide(given.redis);
    side.servers[0].fail({ status: 500 });
    side.servers[1].fail({ status: 503 });
    await side.run({ stream });
    const replies = await side.stream.replies();
    t.is(textOf(replies), expected);
    t.is(side.servers[2].calls()[0]?.model, 'upstream-model');
    t.false(JSON.stringify(replies).includes('upstream-model'));
  });

  test(`reports the backends that were tried, in order, if all fail, ${how}`, async (t) => {
    await using side = await openWorkerSide(given.redis);
    for (const server of side.servers) server.fail({ status: 504 });
    t.like(await side.run({ stream }), { outcome: 'done' });
    const replies = await side.stream.replies();
    t.deepEqual(kindsOf(replies), ['error']);
    t.like(replies.at(-1)?.data, {
      code: 'UPSTREAMS_EXHAUSTED',
      fields: { tier: 'standard', attempted: ['onprem-a', 'onprem-b', 'cloud'] },
    });
    t.deepEqual(side.calls(), [2, 2, 2], 'each was tried once more');
  });

  test(`an invalid request gets the backend's message, and no other backend is called, ${how}`, async (t) => {
    await using side = await openWorkerSide(given.redis);
    side.servers[0].fail({ status: 422, errorMessage: 'temperature is too high for 10.0.0.7:8000' });
    t.like(await side.run({ stream }), { outcome: 'done' });
    const replies = await side.stream.replies();
    t.deepEqual(kindsOf(replies), ['error']);
    t.like(replies.at(-1)?.data, {
      code: 'VALIDATION_ERROR',
      message: 'request: temperature is too high for [address]',
    });
    t.deepEqual(side.calls(), [1, 0, 0]);
  });

  const refused: [string, Partial<InferenceJob>, string][] = [
    ['that starts too late', { startBy: Date.now() - 1 }, 'SERVICE_UNAVAILABLE'],
    ['past its deadline', { deadline: Date.now() - 1 }, 'DEADLINE_EXCEEDED'],
  ];
  for (const [title, times, code] of refused) {
    test(`a job ${title} is never sent to a backend, ${how}`, async (t) => {
      await using side = await openWorkerSide(given.redis);
      t.like(await side.run({ stream, ...times }), { outcome: 'done' });
      const replies = await side.stream.replies();
      t.deepEqual(kindsOf(replies), ['error']);
      t.like(replies[0], { sequence: 0, run: 1, data: { code } });
      t.deepEqual(side.calls(), [0, 0, 0]);
      const reason = code === 'SERVICE_UNAVAILABLE' ? 'late' : 'expired';
      const { values } = (await side.registry.getSingleMetric('svc_jobs_not_started_total')?.get()) ?? { values: [] };
      t.like(values[0], { value: 1, labels: { reason, pool: 'default' } });
    });
  }
}

function bodyOf(data: unknown): unknown {
  return JSON.parse((data as { body: string }).body);
}

test('the usage chunk is the last one if the client asked for it', async (t) => {
  await using side = await openWorkerSide(given.redis);
  await side.run({ stream: true, includeUsage: true });
  const events = streamEvents(chunksOf(await side.stream.replies()));
  t.like(events.at(-1), { choices: [], usage: { prompt_tokens: promptTokensOf(messages) } });
  t.is(events.filter((event) => 'usage' in (event as object)).length, 1);
});

for (const fault of [{ cutAfterChunks: 3 }, { endAfterChunks: 3 }, { stallAfterChunks: 3 }]) {
  test(`${JSON.stringify(fault)}: the client has a part and gets an error, and no other backend is called`, async (t) => {
    await using side = await openWorkerSide(given.redis, { timeouts: fallsSilent(fault) ? short : {} });
    side.servers[0].fail(fault);
    t.like(await side.run({ stream: true }), { outcome: 'done' });
    const replies = await side.stream.replies();
    t.deepEqual(kindsOf(replies), ['chunk', 'error']);
    t.like(replies.at(-1)?.data, { code: 'UPSTREAM_INTERRUPTED' });
    t.is(textOf(replies), expected.slice(0, textOf(replies).length));
    t.true(textOf(replies).length > 3);
    t.deepEqual(side.calls(), [1, 0, 0]);
  });
}

const token = (index: number, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ model: 'medium-chat', choices: [{ index, delta: { content: 'a' }, finish_reason }] })}\n\n`;

test('a complete answer stays complete if its connection then breaks or falls silent', async (t) => {
  for (const end of ['reset', 'silence'] as const) {
    await using server = await startRawBackend((socket) => {
      socket.write(rawAnswer(token(0) + token(0, 'stop'), { ended: false }));
      if (end === 'reset') setTimeout(() => socket.resetAndDestroy(), 50);
    });
    await using side = await openWorkerSide(given.redis, { url: server.url, timeouts: short });
    await side.run({ stream: true });
    const replies = await side.stream.replies();
    t.deepEqual(kindsOf(replies), ['chunk', 'end'], end);
    t.is(textOf(replies), 'aa');
  }
});

test('if two choices were requested, one of them is not the complete answer', async (t) => {
  await using server = await startRawBackend((socket) => socket.write(rawAnswer(token(0) + token(0, 'stop'))));
  await using side = await openWorkerSide(given.redis, { url: server.url });
  await side.run({ stream: true, choices: 2, payload: JSON.stringify({ messages, stream: true, n: 2 }) });
  const replies = await side.stream.replies();
  t.deepEqual(kindsOf(replies), ['chunk', 'error']);
  t.like(replies.at(-1)?.data, { code: 'UPSTREAM_INTERRUPTED' });
});

test('each taking of a job is a separate run with a higher number, and none runs after the request has ended', async (t) => {
  await using side = await openWorkerSide(given.redis);
  const job = await side.admit();
  await side.startRun({ ...job, taken: 0 });
  await side.run(job);
  await side.run(job);
  const replies = await side.stream.replies();
  t.deepEqual(
    replies.filter(({ kind }) => kind !== 'started').map(({ run, kind }) => [run, kind]),
    [
      [2, 'end'],
      [3, 'error'],
    ],
  );
});

test('an internal error after text was sent ends the request, and what was delivered is charged', async (t) => {
  const received = async () => ({ promptTokens: 5, completionTokens: 7, cachedTokens: 0, estimated: true });
  const findAnswer = async () => ({ outcome: 'fault' as const, error: new TypeError('a bug'), received });
  await using side = await openWorkerSide(given.redis, { findAnswer });
  t.deepEqual(await side.run({ stream: true }), { outcome: 'done' });
  const replies = await side.stream.replies();
  t.like(replies.at(-1), { kind: 'error', data: { code: 'INTERNAL_ERROR' } });
  t.like((await side.records())[0], { outcome: 'failed', promptTokens: 5, completionTokens: 7, chargedTokens: 12 });
});

test('an invalid job fails, and calls no backend', async (t) => {
  await using side = await openWorkerSide(given.redis);
  for (const data of [
    undefined,
    {},
    { ...(await side.admit()), payload: undefined },
    { ...(await side.admit()), deadline: 'soon' },
  ]) {
    await t.throwsAsync(side.processRequest({ data, taken: 1, signal: AbortSignal.timeout(30_000) }), {
      name: 'ZodError',
    });
  }
  t.deepEqual(side.calls(), [0, 0, 0]);
  t.deepEqual(await side.stream.replies(), []);
});

test('an answer that is larger than its model may answer is the client’s error, is charged, and is asked for once', async (t) => {
  const body = JSON.stringify({ id: 'x', choices: [], padding: 'x'.repeat(4_194_304) });
  await using large = await startRawBackend((socket) => socket.end(rawAnswer(body, { type: 'application/json' })));
  await using side = await openWorkerSide(given.redis, { url: large.url });
  const asked = { messages: [{ role: 'user', content: 'Hi' }], n: 3 };
  await side.run({ promptEstimate: 10, payload: JSON.stringify(asked), outputTokensMax: 100, choices: 3 });
  const error = (await side.stream.replies()).at(-1);
  t.like(error, { kind: 'error', data: { code: 'VALIDATION_ERROR' } });
  t.regex(error?.kind === 'error' ? error.data.message : '', /answer_bytes_max/);
  t.is(large.requests(), 1);
  t.deepEqual(side.calls(), [0, 0, 0]);
  const [record] = await side.records();
  t.like(record, { outcome: 'failed', counted: 'estimated', completionTokens: 300 });
  t.true((record?.promptTokens ?? 0) >= 5);
  t.deepEqual(
    record?.attempts.map(({ outcome }) => outcome),
    ['too_large'],
  );
});

for (const [endpoint, limit, answerBytesMax] of [
  ['/v1/chat/completions', 4_194_304, undefined],
  ['/v1/embeddings', 16_777_216, undefined],
  ['/v1/embeddings', 100_000, 100_000],
] as const) {
  const whose = answerBytesMax === undefined ? 'by default' : 'if its model says so';
  test(`an answer of ${endpoint} may have ${limit} bytes ${whose}, and not one more`, async (t) => {
    const outcomes: string[] = [];
    for (const bytes of [limit, limit + 1]) {
      const body = `"${'x'.repeat(bytes - 1)}`; // no JSON, so the next backend answers
      await using backend = await startRawBackend((socket) =>
        socket.end(rawAnswer(body, { type: 'application/json' })),
      );
      await using side = await openWorkerSide(given.redis, { url: backend.url, answerBytesMax });
      const asked = endpoint === '/v1/embeddings' ? { input: 'a' } : { messages: [{ role: 'user', content: 'a' }] };
      await side.run({ endpoint, payload: JSON.stringify(asked), outputTokensMax: 0 });
      const [record] = await side.records();
      outcomes.push(record?.attempts[0]?.outcome ?? 'none');
    }
    t.deepEqual(outcomes, ['failed', 'too_large']);
  });
}

/** The encoding that the backend answers with, and the one that the client asked for. */
const encodings = [
  ['float', 'float'],
  ['float', 'base64'],
  ['base64', 'float'],
  ['base64', 'base64'],
] as const;
for (const [sent, encoding_format] of encodings) {
  test(`a large answer of vectors that are ${sent} arrives in pieces, as ${encoding_format}`, async (t) => {
    // Numbers that 32 bits have exactly, in few digits.
    const vector = Array.from({ length: 1_024 }, (_, index) => Math.round(64 + 64 * Math.sin(index)) / 64);
    const encoded = Buffer.from(Float32Array.from(vector).buffer).toString('base64');
    const embedding = sent === 'float' ? vector : encoded;
    const data = Array.from({ length: 100 }, (_, index) => ({ object: 'embedding', index, embedding }));
    const usage = { prompt_tokens: 100, total_tokens: 100 };
    const text = JSON.stringify({ object: 'list', model: 'theirs', data, usage });
    await using backend = await startRawBackend((socket) => socket.end(rawAnswer(text, { type: 'application/json' })));
    await using side = await openWorkerSide(given.redis, { url: backend.url });
    const body = JSON.stringify({ input: Array(100).fill('a'), encoding_format });
    const job = await side.admit({ endpoint: '/v1/embeddings', payload: body, outputTokensMax: 0 });
    const running = side.run(job);
    let taken = 0;
    const reading = setInterval(() => {
      taken += 262_144;
      side.pieceReaders.report({ request: job.requestId, bytes: taken });
    }, 5);
    await running;
    clearInterval(reading);
    const replies = await side.stream.replies();
    const pieces = replies.flatMap((reply) => (reply.kind === 'piece' ? [reply.data] : []));
    t.true(pieces.length > 1);
    t.true(pieces.every(({ length }) => length <= 262_144));
    const expected = encoding_format === 'float' ? vector : encoded;
    t.deepEqual(JSON.parse(Buffer.from(pieces.join(''), 'latin1').toString()), {
      object: 'list',
      model: 'medium-chat',
      data: data.map((item) => ({ ...item, embedding: expected })),
      usage,
    });
    t.like(replies.at(-1), { kind: 'end', data: { usage: { promptTokens: 100, estimated: false } } });
  });
}

test('whatever ends a run, nothing of its answer is held afterwards', async (t) => {
  const half = `{"id":"x","padding":"${'x'.repeat(200_000)}"`;
  await using backend = await startRawBackend((socket) =>
    socket.write(rawAnswer(half, { type: 'application/json', ended: false })),
  );
  for (const reason of ['cancelled', 'ingress gone', 'lock lost', 'shutdown', 'deadline'] as const) {
    await using side = await openWorkerSide(given.redis, { url: backend.url });
    const { controller, stop } = side.stopper();
    const running = side.run({}, controller);
    while (side.answers.bytesHeld() === 0) await new Promise(setImmediate);
    stop(reason);
    await running;
    t.is(side.answers.bytesHeld(), 0, reason);
  }
  await using side = await openWorkerSide(given.redis);
  for (const server of side.servers) server.fail({ cutAfterChunks: 5 });
  await side.run({});
  t.is(side.answers.bytesHeld(), 0, 'all backends have failed');
  for (const server of side.servers) server.fail({});
  await side.run({ assembled: true });
  t.is(side.answers.bytesHeld(), 0, 'it was answered');
});

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
