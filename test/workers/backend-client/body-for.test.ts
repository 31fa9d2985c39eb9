import test from 'ava';
import type { Backend } from '../../../shared/plan-file/plan-file.ts';
import { priorityMax } from '../../../shared/plan-file/plan-file-schema.ts';
import { bodyFor, createOwnFields } from '../../../workers/backend-client/body-for.ts';
import { batchPlan } from '../../support/batch-plan.ts';

const backend: Backend = { url: 'http://127.0.0.1:8000/v1', location: 'on-prem' };
const queued = {
  model: 'small-chat',
  endpoint: '/v1/chat/completions',
  outputTokensMax: 64,
  limitFields: [] as string[],
  assembled: false,
  stream: false,
  choices: 1,
  payload: '{"messages":[],"seed":9223372036854775807}',
};

test('a backend always gets the output limit, before everything else', (t) => {
  t.is(
    bodyFor(queued, backend),
    '{"model":"small-chat","max_tokens":64,"stream":false,"messages":[],"seed":9223372036854775807}',
  );
  t.true(bodyFor(queued, { ...backend, model: 'a "b"' }).startsWith('{"model":"a \\"b\\"","max_tokens":64,'));
});

test('a backend that accepts only one name gets that one', (t) => {
  for (const field of ['max_tokens', 'max_completion_tokens'] as const) {
    const { model, messages, seed, stream, ...limits } = JSON.parse(
      bodyFor(queued, { ...backend, outputLimitField: field }),
    );
    t.deepEqual(limits, { [field]: 64 });
    t.deepEqual([model, messages, typeof seed, stream], ['small-chat', [], 'number', false]);
  }
});

test('the limit has the names that the client has used, unless the backend is known to accept only one', (t) => {
  const limits = (limitFields: string[], known: Partial<Backend> = {}, limit = {}) => {
    const { model, messages, seed, stream, ...sent } = JSON.parse(
      bodyFor({ ...queued, limitFields }, { ...backend, ...known }, { limit }),
    );
    t.deepEqual([model, messages, typeof seed, stream], ['small-chat', [], 'number', false]);
    return sent;
  };
  t.deepEqual(limits([]), { max_tokens: 64 });
  t.deepEqual(limits(['max_tokens']), { max_tokens: 64 });
  t.deepEqual(limits(['max_completion_tokens']), { max_completion_tokens: 64 });
  t.deepEqual(limits(['max_tokens', 'max_completion_tokens']), { max_tokens: 64, max_completion_tokens: 64 });
  const both = ['max_tokens', 'max_completion_tokens'];
  t.deepEqual(limits(both, { outputLimitField: 'max_completion_tokens' }), { max_completion_tokens: 64 });
  t.deepEqual(limits(both, { outputLimitField: 'max_tokens' }, { field: 'max_completion_tokens', tokens: 7 }), {
    max_completion_tokens: 7,
  });
});

test("a backend without whole answers as streams gets the client's own request", (t) => {
  const job = { ...queued, assembled: true };
  t.is(bodyFor(job, { ...backend, wholeAsStream: false }), bodyFor(queued, backend));
});

test("an assembled answer is requested as a stream with usage, before the client's fields", (t) => {
  t.deepEqual(JSON.parse(bodyFor({ ...queued, assembled: true, payload: '{"messages":[]}' }, backend)), {
    ...{ model: 'small-chat', max_tokens: 64 },
    ...{ stream: true, stream_options: { include_usage: true }, messages: [] },
  });
});

test('every request of an endpoint with streams says whether its answer is one', (t) => {
  const sent = (endpoint: string, stream: boolean) =>
    JSON.parse(bodyFor({ ...queued, endpoint, stream, payload: '{"a":{"stream":1}}' }, backend));
  for (const endpoint of ['/v1/chat/completions', '/v1/completions', '/v1/messages', '/v1/responses']) {
    for (const stream of [true, false]) t.like(sent(endpoint, stream), { stream, a: { stream: 1 } }, endpoint);
  }
  for (const endpoint of ['/v1/embeddings', '/v1/rerank']) t.false('stream' in sent(endpoint, false), endpoint);
});

test("a backend with usage in every chunk is asked for it, beside the client's options of the stream", (t) => {
  const each = { ...backend, usageInChunks: true };
  const payload = '{"messages":[],"stream_options":{"include_usage":true,"include_obfuscation":false}}';
  const options = (job: Partial<typeof queued>) => JSON.parse(bodyFor({ ...queued, ...job }, each)).stream_options;
  const every = { include_usage: true, continuous_usage_stats: true };
  t.deepEqual(options({ stream: true, payload }), { ...every, include_obfuscation: false });
  t.deepEqual(options({ assembled: true, payload: '{"messages":[]}' }), every);
  t.deepEqual(options({ stream: true, payload, choices: 2 }), { include_usage: true, include_obfuscation: false });
  t.deepEqual(options({ assembled: true, payload: '{"messages":[]}', choices: 2 }), { include_usage: true });
  t.is(options({ payload: '{"messages":[]}' }), undefined);
  t.is(options({ endpoint: '/v1/messages', stream: true, payload: '{}' }), undefined);
});

const { plans } = batchPlan();
const pepper = 'p'.repeat(32);
const ownFields = createOwnFields({ plans: () => plans, pepper });
const asked = (account = 'user:alice', plan = 'free', lane: 'interactive' | 'batch' = 'interactive') => ({
  job: { account, plan },
  lane,
});

test('a backend with neither option gets neither field', (t) => {
  t.deepEqual(ownFields(asked(), backend), {});
  t.deepEqual(
    createOwnFields({ plans: () => plans, pepper: undefined })(asked(), {
      ...backend,
      cacheSalt: false,
      priority: false,
    }),
    {},
  );
});

test("an account's salt never changes, differs from other accounts' salts, and does not reveal the account", (t) => {
  const saltOf = (account: string, of = ownFields) =>
    of(asked(account), { ...backend, cacheSalt: true }).cache_salt ?? '';
  const salt = saltOf('user:alice');
  t.regex(salt, /^[\w-]{43}$/);
  t.is(saltOf('user:alice'), salt);
  t.is(saltOf('user:alice', createOwnFields({ plans: () => plans, pepper })), salt, 'in every worker');
  t.not(saltOf('user:bob'), salt);
  t.not(saltOf('user:alice', createOwnFields({ plans: () => plans, pepper: 'q'.repeat(32) })), salt);
});

test("a request has its plan's priority, lower first, and lines of batches come after every request", (t) => {
  const priorityOf = (plan: string, lane?: 'interactive' | 'batch') =>
    ownFields(asked('user:alice', plan, lane), { ...backend, priority: true }).priority ?? Number.NaN;
  t.is(priorityOf('pro'), 5);
  t.is(priorityOf('guest-device'), 100);
  t.is(priorityOf('a plan that no longer exists'), 1_000);
  t.is(priorityOf('pro', 'batch'), 5 + priorityMax);
  t.true(priorityOf('pro', 'batch') > priorityMax && priorityOf('pro', 'batch') < priorityOf('free', 'batch'));
});

test("the service's fields replace the client's, and nothing else changes", (t) => {
  const payload =
    '{"messages":[{"content":"\\"priority\\":1"}],"priority":-9,"seed":9223372036854775807,"cache_salt":"mine"}';
  const job = {
    endpoint: '/v1/chat/completions',
    model: 'small-chat',
    outputTokensMax: 64,
    limitFields: [],
    assembled: false,
    stream: false,
    choices: 1,
    payload,
  };
  const head = '{"model":"small-chat","max_tokens":64,';
  const whole = '"stream":false,';
  const messages = '"messages":[{"content":"\\"priority\\":1"}]';
  t.is(
    bodyFor(job, backend, { own: { cache_salt: 'ours', priority: 7 } }),
    `${head}"cache_salt":"ours","priority":7,${whole}${messages},"seed":9223372036854775807}`,
  );
  t.is(
    bodyFor(job, backend, { own: { priority: 7 } }),
    `${head}"priority":7,${whole}${messages},"seed":9223372036854775807,"cache_salt":"mine"}`,
  );
  t.is(bodyFor(job, backend), head + whole + payload.slice(1));
});
