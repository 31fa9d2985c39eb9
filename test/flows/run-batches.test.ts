import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { openStore } from '../../shared/process/open-store.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import {
  type BatchClient,
  type BatchLine,
  lineOf,
  linesOf,
  openBatchClient,
  tokensIn,
} from '../support/batch-client.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { recordedLog } from '../support/recorded-log.ts';

const tiers = { model_tiers: ['guest', 'standard'] };
const plans = {
  free: {
    requests_per_minute: 1,
    tokens_per_minute: 600_000,
    requests_at_once: 1,
    batch_requests_at_once: 8,
    ...tiers,
  },
  'bounded-overage': {
    tokens_per_month: 90,
    overage_tokens_per_month: 30,
    batch_requests_at_once: 1,
    ...tiers,
  },
  'small-month': { tokens_per_month: 90, batch_requests_at_once: 1, ...tiers },
  'guest-models': { batch_requests_at_once: 2, model_tiers: ['guest'] },
};

/** Models with one backend each, so that a test can let one misbehave permanently without affecting the others. */
const alone = { tier: 'standard', pool: 'default', backends: ['onprem-a'] };
const names = ['slow-chat', 'picky-chat', 'kept-chat', 'changed-chat', 'still-chat', 'refused-chat', 'retried-chat'];
const models = Object.fromEntries(names.map((name) => [name, alone]));

let stack: Stack;
let keys: KeyClient;
let store: Store;
const parts = new AsyncDisposableStack();

test.before(async () => {
  stack = parts.use(await startStack({ workers: 2, plans, models }));
  keys = createKeyClient(stack);
  store = parts.use(await openStore(`sqlite:${stack.directory}/store.sqlite`, recordedLog()));
});

test.after.always(() => parts.disposeAsync());

const server = () => stack.modelServers[0];
const byName = (lines: readonly BatchLine[]) => lines.map(({ custom_id }) => custom_id).sort();
const codes = (lines: readonly BatchLine[]) => [...new Set(lines.map(({ error }) => error?.code))];

/** Starts a batch of 60 lines. Returns when some are completed. Those that start later are held until the model is healed. */
async function holdAfterFirstLines(user: BatchClient, model: string): Promise<{ id: string }> {
  server().fail({ untilHealed: true }, model);
  const { id } = await user.create(linesOf(60, { model }));
  await server().waitForCall((call) => call.model === model, 60_000);
  server().fail({ untilHealed: true }, model);
  return user.until(id, ({ request_counts }) => (request_counts?.completed ?? 0) > 0);
}

/** The charge of the account's month, once nothing is reserved. */
async function chargedTo(key: string): Promise<{ used: number; overageUsed: number }> {
  for (;;) {
    const { body } = await keys.send('GET', '/billing/quota', { bearer: key });
    if (body.reserved === 0) return { used: Number(body.used), overageUsed: Number(body.overageUsed) };
    await sleep(20);
  }
}

test('the official SDK uploads a file and downloads its results; each line is charged once and leaves one usage record', async (t) => {
  const user = await openBatchClient(stack, 'whole');
  const created = await user.create(linesOf(40));
  t.is(created.status, 'validating');
  const batch = await user.ended(created.id);
  t.like(batch, { status: 'completed', error_file_id: null, errors: null });
  t.deepEqual(batch.request_counts, { total: 40, completed: 40, failed: 0 });
  for (const at of [batch.in_progress_at, batch.finalizing_at, batch.completed_at])
    t.true((at ?? 0) >= batch.created_at);

  const lines = await user.output(batch);
  t.deepEqual(byName(lines), Array.from({ length: 40 }, (_, index) => `line-${index + 1}`).sort());
  const requestIds = new Set<string>();
  for (const { id, response, error, ...rest } of lines) {
    t.regex(id, /^batch_req_[0-9A-HJKMNP-TV-Z]{26}$/);
    t.is(error, null);
    t.like(response, { status_code: 200, body: { object: 'chat.completion', model: 'small-chat' } });
    t.deepEqual(Object.keys(rest), ['custom_id']);
    requestIds.add(response?.request_id ?? '');
  }
  t.is(requestIds.size, 40);
  const tokens = tokensIn(lines);
  t.deepEqual(await chargedTo(user.apiKey), { used: tokens, overageUsed: 0 });
  const counted = stack.modelServers
    .flatMap((each) => each.calls())
    .filter(({ requestId }) => requestIds.has(requestId ?? ''));
  t.is(counted.length, 40, 'no line was run twice');
  t.is(
    counted.reduce((sum, call) => sum + call.promptTokens + call.completionTokens, 0),
    tokens,
  );

  for (const requestId of requestIds) {
    let record = await store.usage.findUsageRecord(requestId);
    while (record === undefined) {
      await sleep(20);
      record = await store.usage.findUsageRecord(requestId);
    }
    t.like(record, { account: 'user:whole', batch: batch.id, outcome: 'completed', runs: 1, model: 'small-chat' });
  }
  const file = await user.client.files.retrieve(batch.output_file_id ?? '');
  t.like(file, { purpose: 'batch_output', filename: `${batch.id}_output.jsonl` });
  const listed = await user.client.batches.list();
  t.deepEqual(
    listed.data.map(({ id }) => id),
    [batch.id],
  );
  while ((await store.batches.findBatch(batch.id))?.open) await sleep(20);
  t.deepEqual(
    await store.batches.listResults(batch.id, { after: 0, limit: 1 }),
    [],
    'results are deleted once their files exist',
  );
});

test('lines count against the month, but not against the minute or the concurrency limit', async (t) => {
  const user = await openBatchClient(stack, 'minute');
  const { id } = await user.create(linesOf(30));
  t.like(await user.ended(id), { request_counts: { total: 30, completed: 30, failed: 0 } });
  const answer = await keys.infer(user.apiKey);
  t.is(answer.status, 200, 'the one request a minute of the plan is still available');
});

test('answers and errors of lines are in separate files, and every line is in one of them', async (t) => {
  const user = await openBatchClient(stack, 'mixed');
  server().fail({ status: 400, errorMessage: 'The prompt is too long for http://10.0.0.1/secret.' }, 'picky-chat');
  const { id } = await user.create(linesOf(3) + linesOf(2, { model: 'picky-chat' }, 'picky'));
  const batch = await user.ended(id);
  t.like(batch, { status: 'completed', request_counts: { total: 5, completed: 3, failed: 2 } });
  t.deepEqual(byName(await user.output(batch)), ['line-1', 'line-2', 'line-3']);
  const errors = await user.errors(batch);
  t.deepEqual(byName(errors), ['picky-1', 'picky-2']);
  for (const { response, error } of errors) {
    t.like(response, { status_code: 400, body: { code: 'VALIDATION_ERROR' } });
    t.is(error?.code, 'VALIDATION_ERROR');
    t.true(error?.message.includes('too long'));
    t.false(JSON.stringify({ response, error }).includes('10.0.0.1'), 'no address of a backend is disclosed');
  }
});

test('a running batch says how fast it is, what it has used, and which lines failed; these can run again', async (t) => {
  const user = await openBatchClient(stack, 'retrier');
  type Shown = { progress: Record<string, unknown> | null; retry_of: string | null };
  server().fail({ status: 400, errorMessage: 'Too long.' }, 'refused-chat');
  server().fail({ untilHealed: true }, 'retried-chat');
  const text =
    linesOf(3) + linesOf(2, { model: 'refused-chat' }, 'picky') + linesOf(1, { model: 'retried-chat' }, 'held');
  const { id } = await user.create(text);
  const running = await user.until(
    id,
    ({ request_counts }) => request_counts?.failed === 2 && request_counts.completed === 3,
  );
  const { progress, retry_of } = running as unknown as Shown;
  t.is(retry_of, null);
  t.like(progress, {
    error_counts: { VALIDATION_ERROR: 2 },
    failures: { length: 2, 0: { line: 4, custom_id: 'picky-1' } },
  });
  const { usage } = progress as unknown as { usage: { total_tokens: number } };
  t.true(usage.total_tokens > 0);
  server().heal('retried-chat');
  const ended = await user.ended(id);
  t.is((ended as unknown as Shown).progress, null);
  t.is(ended.request_counts?.failed, 2);
  server().heal('refused-chat');
  const body = { lines: 'failed' };
  const { status, body: made } = await keys.send('POST', `/v1/batches/${id}/retry`, { bearer: user.apiKey, body });
  t.like({ status, made }, { status: 200, made: { retry_of: id } });
  const again = await user.ended(String(made.id));
  t.like(again, { status: 'completed', request_counts: { total: 2, completed: 2, failed: 0 } });
  t.deepEqual(byName(await user.output(again)), ['picky-1', 'picky-2']);
});

const good = lineOf('good');
const withBody = (body: object) =>
  JSON.stringify({ custom_id: 'x', method: 'POST', url: '/v1/chat/completions', body });
const messages = [{ role: 'user', content: 'Hi' }];

const badFiles: [
  what: string,
  file: string | Buffer,
  fault: { code: string; line: number | null; param: string | null },
][] = [
  [
    'is not UTF-8',
    Buffer.concat([Buffer.from(`${good}\n`), Buffer.from([0x22, 0xff, 0x22])]),
    { code: 'invalid_utf8', line: 2, param: null },
  ],
  ['has a line that is a scalar', `${good}\n17\n`, { code: 'invalid_json_line', line: 2, param: null }],
  ['has a line that is an array', `[${good}]\n`, { code: 'invalid_json_line', line: 1, param: null }],
  ['has a line that is not JSON', `${good}\n{"custom_id": \n`, { code: 'invalid_json_line', line: 2, param: null }],
  [
    'gives two lines the same name',
    `${good}\n${lineOf('b')}\n${good}\n`,
    { code: 'duplicate_custom_id', line: 3, param: 'custom_id' },
  ],
  [
    'has a line without a name',
    `${good}\n${good.replace('"custom_id"', '"id"')}\n`,
    { code: 'invalid_custom_id', line: 2, param: 'custom_id' },
  ],
  ['has another URL', `${good.replace('chat/', '')}\n`, { code: 'invalid_url', line: 1, param: 'url' }],
  ['has another method', `${good.replace('POST', 'GET')}\n`, { code: 'invalid_method', line: 1, param: 'method' }],
];

for (const [index, [what, file, fault]] of badFiles.entries()) {
  test(`a file that ${what} fails its batch, naming line and field; no line is run or charged`, async (t) => {
    const user = await openBatchClient(stack, `faulty-${index}`);
    const { id } = await user.create(file);
    const batch = await user.ended(id);
    t.is(batch.status, 'failed');
    const [first] = batch.errors?.data ?? [];
    t.like(first, fault);
    t.true((first?.message?.length ?? 0) > 0);
    t.deepEqual(batch.request_counts, { total: 0, completed: 0, failed: 0 });
    t.deepEqual([batch.output_file_id, batch.error_file_id], [null, null]);
    t.true((batch.failed_at ?? 0) > 0);
    t.deepEqual(await chargedTo(user.apiKey), { used: 0, overageUsed: 0 });
  });
}

const refusedLines: Record<string, [line: string, param: string]> = {
  'no-body': [withBody({}).replace('"body"', '"content"'), 'body'],
  stream: [withBody({ model: 'small-chat', messages, stream: true }), 'stream'],
  'no-messages': [withBody({ model: 'small-chat' }), 'messages'],
  'wrong-type': [withBody({ model: 'small-chat', messages: [{ role: 'user', content: 7 }] }), 'messages[0].content'],
  'too-much-output': [lineOf('x', { maxTokens: 1e9 }), 'max_tokens'],
  'unknown-model': [lineOf('x', { model: 'no-such-model' }), 'model'],
  'not-listed': [lineOf('x').replace('"model"', '"priority":-1,"model"'), 'priority'],
};

for (const base of ['/v1', '/openai/v1']) {
  test(`lines whose bodies are refused end with their 400 in the error file, uncharged, in the form of ${base}`, async (t) => {
    const user = await openBatchClient(stack, `refused-${base.length}`, undefined, base);
    const named = Object.entries(refusedLines).map(([name, [line]]) => line.replace('"x"', `"${name}"`));
    const outside = lineOf('outside-the-plan', { model: 'large-chat' });
    const batch = await user.ended((await user.create([lineOf('a'), ...named, outside, lineOf('b')].join('\n'))).id);
    const total = named.length + 3;
    t.like(batch, { status: 'completed', errors: null, request_counts: { total, completed: 2, failed: total - 2 } });
    t.deepEqual(byName(await user.output(batch)), ['a', 'b']);
    const errors = await user.errors(batch);
    for (const [name, [, param]] of Object.entries(refusedLines)) {
      const { response, error } = errors.find(({ custom_id }) => custom_id === name) ?? {};
      t.is(response?.status_code, 400, name);
      t.is(error?.code, 'VALIDATION_ERROR', name);
      t.true(error?.message.startsWith(`${param}: `), `${name}: ${error?.message}`);
      const { message } = error ?? {};
      const flat = { error: message, code: 'VALIDATION_ERROR' };
      const nested = { error: { message, code: 'VALIDATION_ERROR', type: 'invalid_request_error', param } };
      t.deepEqual<unknown, unknown>(response?.body, base === '/v1' ? flat : nested, name);
    }
    t.is(errors.find(({ custom_id }) => custom_id === 'outside-the-plan')?.error?.code, 'rate_limit_exceeded');
    t.deepEqual(await chargedTo(user.apiKey), { used: tokensIn(await user.output(batch)), overageUsed: 0 });
  });
}

test('a batch of which every line is refused ends', async (t) => {
  const user = await openBatchClient(stack, 'all-refused');
  const { id } = await user.create(linesOf(2_000, { model: 'no-such-model' }));
  const batch = await user.ended(id);
  t.like(batch, {
    status: 'completed',
    output_file_id: null,
    request_counts: { total: 2_000, completed: 0, failed: 2_000 },
  });
  t.is(new Set(byName(await user.errors(batch))).size, 2_000);
  t.deepEqual(await chargedTo(user.apiKey), { used: 0, overageUsed: 0 });
});

test('the first hundred errors of a file are reported', async (t) => {
  const user = await openBatchClient(stack, 'faults');
  const { id } = await user.create(`${good}\n`.repeat(150));
  const { errors } = await user.ended(id);
  t.is(errors?.data?.length, 100);
  t.deepEqual([errors?.data?.[0]?.line, errors?.data?.[99]?.line], [2, 101]);
});

test('a file is run with a byte order mark, carriage returns and lines of white space, with numbers kept as written', async (t) => {
  const user = await openBatchClient(stack, 'allowed');
  const exact = withBody({ model: 'small-chat', messages, max_tokens: 4, seed: 'SEED' }).replace(
    '"SEED"',
    '12345678901234567890',
  );
  const { id } = await user.create(`\ufeff${[lineOf('a'), '', lineOf('b'), ' \t', exact].join('\r\n')}\n\n`);
  const batch = await user.ended(id);
  t.like(batch, { status: 'completed', request_counts: { total: 3, completed: 3, failed: 0 } });
  t.deepEqual(byName(await user.output(batch)), ['a', 'b', 'x']);
});

test('files and results are kept for as long as their owner says', async (t) => {
  const user = await openBatchClient(stack, 'kept-shortly');
  const expiry = { anchor: 'created_at', seconds: 3_600 } as const;
  const input = await user.client.files.create({
    file: new File([lineOf('a')], 'in.jsonl'),
    purpose: 'batch',
    expires_after: expiry,
  });
  t.is(input.expires_at, input.created_at + 3_600);
  const options = { endpoint: '/v1/chat/completions', completion_window: '24h', output_expires_after: expiry } as const;
  const { id } = await user.client.batches.create({ input_file_id: input.id, ...options });
  const { output_file_id: output } = await user.ended(id);
  const results = await user.client.files.retrieve(output ?? '');
  t.is(results.expires_at, results.created_at + 3_600);
});

test('a cancelled batch ends within seconds: running lines are stopped and charged their prompt, the rest get batch_cancelled', async (t) => {
  const user = await openBatchClient(stack, 'cancelled');
  server().fail({ hang: true }, 'slow-chat');
  const { id } = await user.create(linesOf(5) + linesOf(40, { model: 'slow-chat' }, 'slow'));
  await user.until(id, ({ request_counts }) => request_counts?.completed === 5);
  while (
    !server()
      .calls()
      .some(({ model, state }) => model === 'slow-chat' && state === 'running')
  )
    await sleep(20);
  const cancelledAt = Date.now();
  t.is((await user.client.batches.cancel(id)).status, 'cancelling');
  const batch = await user.ended(id, 30_000);
  t.like(batch, { status: 'cancelled', request_counts: { total: 45, completed: 5, failed: 40 } });
  t.true((batch.cancelled_at ?? 0) >= (batch.cancelling_at ?? 0));
  t.log(`cancelled after ${Date.now() - cancelledAt} ms`);
  t.is((await user.output(batch)).length, 5, 'earlier results are kept');
  const errors = await user.errors(batch);
  t.deepEqual(codes(errors), ['batch_cancelled']);
  t.deepEqual(byName(errors), Array.from({ length: 40 }, (_, index) => `slow-${index + 1}`).sort());
  const { used } = await chargedTo(user.apiKey);
  const answered = tokensIn(await user.output(batch));
  t.true(
    used > answered && used <= answered + 8 * 20,
    `charged ${used}: what was answered, and the prompts of eight lines`,
  );
  t.deepEqual(
    server()
      .calls()
      .filter(({ model, state }) => model === 'slow-chat' && state === 'running'),
    [],
  );
});

test('a batch belongs to its account: it continues when the key that created it is revoked', async (t) => {
  const user = await openBatchClient(stack, 'revoked');
  const { id } = await holdAfterFirstLines(user, 'kept-chat');
  t.is((await keys.revoke('revoked', user.apiKey)).status, 200);
  server().heal('kept-chat');
  const token = await keys.token('revoked');
  const signedIn = await openBatchClient(stack, 'revoked', token);
  t.like(await signedIn.ended(id), { status: 'completed', request_counts: { total: 60, completed: 60, failed: 0 } });
});

test('a changed plan applies to the next line: lines for a model outside it fail', async (t) => {
  const user = await openBatchClient(stack, 'changed');
  const { id } = await holdAfterFirstLines(user, 'changed-chat');
  t.is((await keys.change('user:changed', { plan: 'guest-models' })).status, 200);
  server().heal('changed-chat');
  const batch = await user.ended(id);
  const [output, errors] = [await user.output(batch), await user.errors(batch)];
  t.is(batch.status, 'completed');
  t.true(output.length > 0 && errors.length > 0 && output.length + errors.length === 60);
  t.deepEqual(codes(errors), ['rate_limit_exceeded']);
  t.true(errors[0]?.error?.message.includes('upgrade'));
});

test('lines after a used-up month fail, unless overage is on', async (t) => {
  const user = await openBatchClient(stack, 'spent');
  await keys.change('user:spent', { plan: 'small-month' });
  const batch = await user.ended((await user.create(linesOf(30))).id);
  const [output, errors] = [await user.output(batch), await user.errors(batch)];
  t.is(batch.status, 'completed');
  t.true(output.length > 0 && errors.length > 0 && output.length + errors.length === 30);
  t.deepEqual(codes(errors), ['quota_exceeded']);
  t.deepEqual(await chargedTo(user.apiKey), { used: tokensIn(output), overageUsed: 0 });
  t.true(tokensIn(output) < 90 + 20, 'overspent by at most one line');

  await keys.change('user:spent', { overageEnabled: true });
  const more = await user.ended((await user.create(linesOf(10, {}, 'more'))).id);
  t.like(more.request_counts, { completed: 10, failed: 0 });
  const total = tokensIn(output) + tokensIn(await user.output(more));
  t.deepEqual(await chargedTo(user.apiKey), { used: total, overageUsed: tokensIn(await user.output(more)) });
});

test('lines after a used-up month continue up to the bound of overage', async (t) => {
  const user = await openBatchClient(stack, 'bounded');
  await keys.change('user:bounded', { plan: 'bounded-overage', overageEnabled: true });
  const batch = await user.ended((await user.create(linesOf(40))).id);
  const [output, errors] = [await user.output(batch), await user.errors(batch)];
  t.true(output.length > 0 && errors.length > 0 && output.length + errors.length === 40);
  t.deepEqual(codes(errors), ['quota_exceeded']);
  t.regex(errors[0]?.error?.message ?? '', /and so are 30 tokens of overage/);
  const { used, overageUsed } = await chargedTo(user.apiKey);
  t.is(used, tokensIn(output));
  t.true(used >= 120 && used < 120 + 20, `${used}: beyond the bound by at most one line`);
  t.true(overageUsed > 0 && overageUsed < 30 + 20, String(overageUsed));
});

test('the batches of a suspended account pause, and continue when the suspension ends', async (t) => {
  const user = await openBatchClient(stack, 'suspended');
  const { id } = await holdAfterFirstLines(user, 'still-chat');
  await keys.change('user:suspended', { suspended: true });
  server().heal('still-chat');
  // Calls that have begun end; from then on there is no further call.
  const calls = () =>
    server()
      .calls()
      .filter(({ model }) => model === 'still-chat').length;
  let [before, now] = [-1, calls()];
  for (; before !== now; [before, now] = [now, calls()]) await new Promise((resolve) => setTimeout(resolve, 1_500));
  t.true(((await store.batches.countResults(id)).completed ?? 0) < 60);
  t.is((await store.batches.findBatch(id))?.state, 'in_progress');
  await keys.change('user:suspended', { suspended: false });
  t.like(await user.ended(id), { status: 'completed', request_counts: { total: 60, completed: 60, failed: 0 } });
});
