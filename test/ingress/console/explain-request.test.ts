import { readFile } from 'node:fs/promises';
import test from 'ava';
import type { ShownAttempt } from '../../../ingress/console/requests/attempt-words.ts';
import { codeWords, runbooks } from '../../../ingress/console/requests/code-words.ts';
import { explainRequest, type ShownRequest } from '../../../ingress/console/requests/explain-request.ts';
import { deadlineExceeded, errorCodes, toApiError, upstreamsExhausted } from '../../../shared/errors.ts';

const documentation = new URL('../../../ingress/documentation/', import.meta.url);

const ended: ShownRequest = {
  ...{ id: 'req_1', answer_id: null, object: 'request', endpoint: '/v1/chat/completions', model: 'small-chat' },
  ...{ state: 'ended', outcome: 'failed', status: 503, code: 'UPSTREAMS_EXHAUSTED', created_at: 0 },
  ...{ queue_ms: 5, first_token_ms: null, duration_ms: 50, attempts: [], usage: null },
  ...{ charged_tokens: 0, key_id: null, batch_id: null },
};

function call(backend: string, fields: Partial<ShownAttempt>): ShownAttempt {
  const location = backend === 'cloud' ? 'cloud' : 'on-prem';
  return { backend, location, outcome: 'failed', cause: null, ms: 1, address: null, rule: null, ...fields };
}

const refused = { cause: 'connection refused', rule: 'no-connection' };
const unauthorized = { cause: 'HTTP 401', rule: 'key-or-payment' };
const calls = [call('onprem-a', refused), call('onprem-b', refused), call('cloud', unauthorized)];

test('an operator reads in one sentence who failed and why, what the client got, and which runbook fits', (t) => {
  const { happened, details, runbook, tone } = explainRequest({ ...ended, attempts: calls, account: 'user:alice' });
  t.is(happened, 'No model server could answer: two refused the connection, the cloud refused our key.');
  t.deepEqual(details, [
    'The client got 503 UPSTREAMS_EXHAUSTED, "No model server could answer. Retry with exponential backoff.", with Retry-After.',
    'Nothing was charged.',
    'The account can: send it again, with growing pauses.',
    'You can: repair the model servers that failed, or add another one for this model.',
  ]);
  t.deepEqual([runbook, tone], ['model-down', 'bad']);
});

test('an account does not see names of backends, and no count of them', (t) => {
  const attempts = calls.map(({ backend: _, address: __, rule: ___, ...shown }) => shown);
  const { happened, runbook, details } = explainRequest({ ...ended, attempts });
  t.is(
    happened,
    "No model server could answer: on-prem model servers refused the connection, the cloud refused the service's key.",
  );
  t.is(runbook, undefined);
  t.is(details.at(-1), 'Send it again, with growing pauses.');
});

test('the runbook follows what all model servers have in common', (t) => {
  const runbookOf = (...attempts: ShownAttempt[]) => explainRequest({ ...ended, attempts, account: 'a' }).runbook;
  t.is(runbookOf(), 'model-down');
  t.is(runbookOf(call('a', refused)), 'model-down');
  t.is(runbookOf(call('a', unauthorized), call('b', { cause: 'HTTP 402' })), 'backend-account-refused');
  t.is(runbookOf(call('a', { cause: 'HTTP 404', outcome: 'not_offered' })), 'backend-lacks-model');
  t.is(runbookOf(call('a', { outcome: 'loading', cause: 'HTTP 503' })), 'backend-loading');
  t.is(runbookOf(call('a', { outcome: 'busy', cause: 'HTTP 429' })), 'queue-waits-long');
  const answered = call('b', { outcome: 'answered' });
  const after = (attempt: ShownAttempt) =>
    explainRequest({
      ...ended,
      ...{ outcome: 'completed', code: null, status: null, account: 'a' },
      attempts: [attempt, answered],
    });
  t.is(after(call('a', refused)).runbook, 'backend-failing');
  t.is(after(call('a', refused)).happened, 'The answer was complete, after a failure: a refused the connection.');
  t.is(after(call('a', { outcome: 'busy', cause: 'HTTP 429' })).runbook, undefined);
});

const sentence = /^[A-Z\d].*[.]$/s;

test('each outcome, and each code of the service, has a sentence and says what was charged', (t) => {
  const codes = [...Object.keys(errorCodes), ...Object.keys(codeWords), null];
  for (const outcome of ['completed', 'failed', 'cancelled', 'lost'] as const) {
    for (const code of codes) {
      for (const account of [undefined, 'user:alice']) {
        const request = { ...ended, outcome, code, charged_tokens: 1_234, ...(account && { account }) };
        const { happened, details } = explainRequest(request);
        t.regex(happened, sentence, `${outcome} ${code}`);
        for (const detail of details) t.regex(detail, sentence);
        t.true(details.some((detail) => detail.startsWith('1,234 tokens were charged')));
      }
    }
  }
});

test('the messages are those of the errors', (t) => {
  t.is(codeWords.UPSTREAMS_EXHAUSTED?.message, upstreamsExhausted('free', []).message);
  t.is(codeWords.DEADLINE_EXCEEDED?.message, deadlineExceeded().message);
  t.is(codeWords.INTERNAL_ERROR?.message, toApiError(new Error('any')).message);
});

test('each code that is explained is a section of the page about errors, and each runbook a page with this title', async (t) => {
  const errors = await readFile(new URL('errors.md', documentation), 'utf8');
  for (const code of Object.keys(codeWords)) t.true(errors.includes(`### \`${code}\`\n`), code);
  for (const [name, title] of Object.entries(runbooks)) {
    const page = await readFile(new URL(`runbooks/${name}.md`, documentation), 'utf8');
    t.true(page.startsWith(`# ${title}\n`), name);
  }
});

test('what ended a request early is said: the client, an operator, its batch, or its time in the queue', (t) => {
  const stopped = (cause: string, fields: Partial<ShownRequest> = {}) =>
    explainRequest({
      ...{ ...ended, outcome: 'cancelled', code: null, status: null, ...fields },
      attempts: [call('a', { outcome: 'stopped', cause })],
    });
  t.is(stopped('the client left').happened, 'The client left before the answer was complete.');
  t.is(stopped('the client left').details[0], 'The client had left, so it got nothing.');
  t.is(stopped('the batch was cancelled').happened, 'The batch was cancelled before the answer was complete.');
  const line = explainRequest({
    ...ended,
    outcome: 'cancelled',
    code: 'batch_expired',
    status: null,
    batch_id: 'batch_1',
  });
  t.is(line.happened, 'The batch ended before this line was finished.');
  t.regex(line.details[0] ?? '', /^The error file of the batch says batch_expired, "The line was/);
  const waited = explainRequest({ ...ended, code: 'SERVICE_UNAVAILABLE', queue_ms: null, account: 'user:alice' });
  t.is(waited.happened, 'No worker took the request before its time in the queue was over.');
  t.is(waited.runbook, 'queue-waits-long');
  const lost = { ...ended, outcome: 'lost', code: null, status: null, account: 'user:alice' } as const;
  t.is(explainRequest(lost).runbook, 'leases-expiring');
  t.is(explainRequest({ ...lost, batch_id: 'batch_1' }).runbook, 'batch-lines-lost');
  t.is(explainRequest({ ...ended, outcome: null, state: 'queued' }).happened, 'It waits for a worker.');
});

test('each cause is a sentence about who failed', (t) => {
  const phraseOf = (fields: Partial<ShownAttempt>) =>
    /: (.*)\.$/.exec(explainRequest({ ...ended, attempts: [call('a', fields)], account: 'user:alice' }).happened)?.[1];
  t.is(phraseOf({ cause: 'no token within 30 s' }), 'a sent no token within 30 s');
  t.is(phraseOf({ cause: 'no connection within 5 s' }), 'a did not accept a connection within 5 s');
  t.is(phraseOf({ cause: 'nothing within 30 s', outcome: 'interrupted' }), 'a stopped sending within 30 s');
  t.is(phraseOf({ cause: 'HTTP 500' }), 'a answered HTTP 500');
  t.is(phraseOf({ cause: 'HTTP 503', outcome: 'loading' }), 'a was loading the model (HTTP 503)');
  t.is(phraseOf({ cause: 'HTTP 402' }), 'a wants to be paid');
  t.is(phraseOf({ cause: 'TLS certificate is not trusted' }), 'a has a TLS certificate that is not trusted');
  t.is(phraseOf({ cause: 'something new' }), 'a failed');
});
