import { readFileSync } from 'node:fs';
import test from 'ava';
import { oneBackend } from '../stack/plan.ts';
import type { LogLine } from '../stack/service-process.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { chat } from '../support/chat.ts';
import { type OtlpReceiver, startOtlpReceiver } from '../support/otlp/otlp-receiver.ts';

const guests = { tier: 'guest', pool: 'default' };

let receiver: OtlpReceiver;
let stack: Stack;
let key: string;

test.before(async () => {
  receiver = await startOtlpReceiver();
  stack = await startStack({
    models: {
      ...oneBackend,
      'two-chat': { ...guests, backends: ['onprem-b', 'cloud'] },
      'slow-chat': { ...guests, backends: ['onprem-a'] },
      'broken-chat': { ...guests, backends: ['onprem-a'] },
    },
    aliases: { 'alias-chat': 'small-chat' },
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url },
  });
  key = await stack.mintKey('alice');
});

test.after.always(async () => {
  await stack?.[Symbol.asyncDispose]();
  await receiver?.[Symbol.asyncDispose]();
});

const ask = (options: Partial<Parameters<typeof chat>[0]> = {}) =>
  chat({ url: stack.ingresses[0]?.url ?? '', key, question: 'repeat 20', ...options });

/** The line of an answered request, once it is written. */
async function lineOf(answered: Promise<Response>): Promise<LogLine> {
  const answer = await answered;
  await answer.text();
  const id = answer.headers.get('x-request-id');
  const process = stack.ingresses[0]?.process;
  if (process === undefined) throw new Error('the stack has an ingress');
  return process.line(({ requestId, durationMs }) => requestId === id && durationMs !== undefined);
}

/** The fields of each line, by the table of the page; those that every line of the log has are above it. */
function documentedFields(): { inference: string[]; all: string[] } {
  const page = readFileSync('ingress/documentation/observability.md', 'utf8');
  const rows = [...page.matchAll(/^\| ((?:`\w+`(?:, )?)+) \| (all|inference) \|/gm)];
  const of = (wanted: string) =>
    rows.flatMap(([, names = '', which]) =>
      which === wanted ? [...names.matchAll(/\w+/g)].map(([name]) => name) : [],
    );
  return { inference: of('inference'), all: of('all') };
}

test('the line of an inference request has its model, backend, times and tokens, streamed and whole, by model and by alias', async (t) => {
  for (const fields of [{ stream: true }, {}, { model: 'alias-chat' }]) {
    const line = await lineOf(ask(fields));
    t.like(line, {
      ...{ msg: 'answered', account: 'user:alice', address: '127.0.0.1', status: '200' },
      ...{ route: '/v1/chat/completions', endpoint: '/v1/chat/completions', model: 'small-chat', outcome: 'completed' },
      ...{ backend: 'onprem-a', cachedTokens: 0 },
    });
    t.regex(String(line.keyId), /^key_/);
    for (const field of ['promptTokens', 'completionTokens', 'durationMs']) t.true(Number(line[field]) > 0, field);
    t.true(Number(line.queueWaitMs) <= Number(line.firstTokenMs), 'the first token comes after the wait');
    t.true(Number(line.firstTokenMs) <= Number(line.durationMs) + 1_000);
  }
});

test('the line names the backend that answered after another one failed, and the last one if all failed', async (t) => {
  const [, second, cloud] = stack.modelServers;
  second.fail({ status: 500 }, 'two-chat');
  t.like(await lineOf(ask({ model: 'two-chat' })), { status: '200', backend: 'cloud', outcome: 'completed' });
  cloud.fail({ status: 500 }, 'upstream-model');
  const failed = await lineOf(ask({ model: 'two-chat' }));
  t.like(failed, { status: '503', code: 'UPSTREAMS_EXHAUSTED', outcome: 'failed', model: 'two-chat' });
  t.regex(String(failed.backend), /^(onprem-b|cloud)$/);
  t.false('promptTokens' in failed);
});

test('the line of a refused request has its outcome and code; the model only if it is known', async (t) => {
  const invalid = await lineOf(ask({ model: 'unknown' }));
  t.like(invalid, { status: '400', code: 'VALIDATION_ERROR', outcome: 'refused', account: 'user:alice' });
  const unknown = await lineOf(ask({ key: 'svc_unknown' }));
  t.like(unknown, { status: '401', code: 'INVALID_KEY', outcome: 'refused' });
  for (const line of [invalid, unknown]) for (const field of ['model', 'backend']) t.false(field in line, field);
});

test('a stream that breaks off has failed, although its status is 200', async (t) => {
  const [first] = stack.modelServers;
  first.fail({ cutAfterChunks: 3 }, 'broken-chat');
  t.like(await lineOf(ask({ stream: true, model: 'broken-chat' })), {
    ...{ status: '200', outcome: 'failed', code: 'UPSTREAM_INTERRUPTED', backend: 'onprem-a' },
  });
});

test('a client that leaves has disconnected, and the backend of its text is known', async (t) => {
  const [first] = stack.modelServers;
  first.fail({ chunkMs: 50 }, 'slow-chat');
  const leaving = new AbortController();
  const answer = await ask({ stream: true, model: 'slow-chat', question: 'repeat 500', signal: leaving.signal });
  await answer.body?.getReader().read();
  const id = answer.headers.get('x-request-id');
  leaving.abort();
  const line = await stack.ingresses[0]?.process.line(
    ({ requestId, durationMs }) => requestId === id && durationMs !== undefined,
  );
  t.like(line, { msg: 'the client disconnected', status: 'aborted', outcome: 'disconnected', backend: 'onprem-a' });
});

test('a repeat has the outcome repeated', async (t) => {
  const headers = { 'idempotency-key': 'one' };
  t.like(await lineOf(ask({ headers })), { outcome: 'completed' });
  t.like(await lineOf(ask({ headers })), { outcome: 'repeated', status: '200' });
});

test('the page lists exactly the fields that lines have; fields of inference are on no other line', async (t) => {
  const { all, inference } = documentedFields();
  t.true(all.length > 5 && inference.length > 5);
  const always = ['level', 'time', 'process', 'msg'];
  const headers = { 'x-client-request-id': 'mine' };
  await lineOf(ask({ stream: true, headers }));
  await lineOf(ask({ model: 'unknown' }));
  const other = await lineOf(
    fetch(`${stack.ingresses[0]?.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } }),
  );
  const lines = stack.ingresses[0]?.process.logs.filter(({ durationMs }) => durationMs !== undefined) ?? [];
  const written = new Set(lines.flatMap((line) => Object.keys(line)));
  t.deepEqual([...written].toSorted(), [...always, ...all, ...inference].toSorted());
  for (const field of inference) t.false(field in other, field);
});
