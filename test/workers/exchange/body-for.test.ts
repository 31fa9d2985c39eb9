import test from 'ava';
import type { Backend } from '../../../shared/plan-file/plan-file.ts';
import { bodyFor } from '../../../workers/exchange/body-for.ts';

const backend: Backend = { url: 'http://127.0.0.1:8000/v1', location: 'on-prem' };
const queued = {
  model: 'small-chat',
  endpoint: '/v1/chat/completions',
  outputTokensMax: 64,
  assembled: false,
  body: '{"messages":[],"seed":9223372036854775807}',
};

test('a backend always gets the output limit, by both names, before everything else', (t) => {
  t.is(
    bodyFor(queued, backend),
    '{"model":"small-chat","max_tokens":64,"max_completion_tokens":64,"messages":[],"seed":9223372036854775807}',
  );
  t.true(bodyFor(queued, { ...backend, model: 'a "b"' }).startsWith('{"model":"a \\"b\\"","max_tokens":64,'));
});

test('a backend that accepts only one name gets that one', (t) => {
  for (const field of ['max_tokens', 'max_completion_tokens'] as const) {
    const { model, messages, seed, ...limits } = JSON.parse(bodyFor(queued, { ...backend, outputLimitField: field }));
    t.deepEqual(limits, { [field]: 64 });
    t.deepEqual([model, messages, typeof seed], ['small-chat', [], 'number']);
  }
});

test("a backend without whole answers as streams gets the client's own request", (t) => {
  const job = { ...queued, assembled: true };
  t.is(bodyFor(job, { ...backend, wholeAsStream: false }), bodyFor(queued, backend));
});

test("an assembled answer is requested as a stream with usage, before the client's fields", (t) => {
  t.deepEqual(JSON.parse(bodyFor({ ...queued, assembled: true, body: '{"messages":[]}' }, backend)), {
    ...{ model: 'small-chat', max_tokens: 64, max_completion_tokens: 64 },
    ...{ stream: true, stream_options: { include_usage: true }, messages: [] },
  });
});
