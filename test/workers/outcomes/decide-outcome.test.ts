import test from 'ava';
import { BackendError } from '../../../shared/endpoints/answers/backend-error.ts';
import { readSaid, readSaidBody } from '../../../shared/endpoints/answers/backend-said.ts';
import { decide, decideOutcome, rules } from '../../../workers/outcomes/decide-outcome.ts';
import { treatments } from '../../../workers/outcomes/outcome.ts';

for (const rule of rules) {
  test(`${rule.id} (${rule.engine}): its example is ${rule.outcome}`, (t) => {
    t.like(decide(rule.example), { rule: rule.id, outcome: rule.outcome });
  });
}

test('rules have different ids, and only failures have evidence', (t) => {
  t.is(new Set(rules.map(({ id }) => id)).size, rules.length);
  for (const { id, outcome, evidence } of rules) {
    t.is(evidence !== undefined, treatments[outcome].breaker === 'by evidence', id);
  }
});

/** The status and the body of an answer, and what it means before and after text. */
const answers: readonly (readonly [status: number, body: unknown, outcome: string])[] = [
  ...[400, 413, 422].map((status) => [status, {}, 'refused'] as const),
  ...[401, 402, 403, 407, 408, 409, 418, 500, 502, 504, 302].map((status) => [status, {}, 'failed'] as const),
  ...[404, 405, 501].map((status) => [status, {}, 'not_offered'] as const),
  ...[429, 529].map((status) => [status, {}, 'busy'] as const),
  [503, {}, 'failed'],
  [503, { error: { message: 'Loading model', type: 'unavailable_error', code: 503 } }, 'loading'],
  [503, { error: 'server busy, please try again.  maximum pending requests exceeded' }, 'busy'],
  [503, { message: 'The request queue is full.', object: 'error', code: 503 }, 'busy'],
  [
    500,
    { error: { code: 500, message: 'image input is not supported - hint: mmproj', type: 'server_error' } },
    'refused',
  ],
  [500, { error: { code: 500, message: 'The image input is not supported by us', type: 'server_error' } }, 'refused'],
  [500, { error: { message: 'CUDA out of memory', type: 'server_error' } }, 'failed'],
  [400, { error: { message: 'Invalid key', code: 'invalid_api_key' } }, 'failed'],
  [403, { error: { code: 403, message: 'Your input was flagged', metadata: { reasons: ['violence'] } } }, 'refused'],
];

for (const [status, body, outcome] of answers) {
  test(`${status} ${JSON.stringify(body)} is ${outcome}`, (t) => {
    const said = readSaidBody(JSON.stringify(body));
    const error = new BackendError('status', 'x', { status, said });
    t.is(decideOutcome(error, { hasText: false }).outcome, outcome as 'failed');
    t.is(decideOutcome(error, { hasText: true }).outcome, 'interrupted');
  });
}

test('an error in a 200 means what its code, type or status says', (t) => {
  const outcomeOf = (error: unknown) => {
    const said = readSaid({ error });
    if (said === undefined) throw new Error('it is no error');
    return decideOutcome(new BackendError('said', 'x', { said }), { hasText: false }).outcome;
  };
  t.is(outcomeOf({ message: 'too many', code: 429 }), 'busy');
  t.is(outcomeOf({ message: 'Overloaded', type: 'overloaded_error' }), 'busy');
  t.is(outcomeOf({ message: 'no', type: 'BadRequestError', code: 400 }), 'refused');
  t.is(outcomeOf({ message: 'no', type: 'invalid_request_error' }), 'refused');
  t.is(outcomeOf({ message: 'no', status: 'INVALID_ARGUMENT', code: 400 }), 'refused');
  t.is(
    outcomeOf({ message: 'prompt is too long: 209303 tokens > 200000 maximum', type: 'invalid_request_error' }),
    'too_long',
  );
  t.is(outcomeOf({ code: 'context_length_exceeded', message: 'Your input exceeds the context window.' }), 'too_long');
  t.is(outcomeOf({ message: 'no', type: 'not_found_error' }), 'not_offered');
  t.is(outcomeOf({ message: 'no', type: 'server_error' }), 'failed');
  t.is(outcomeOf({ message: 'no' }), 'failed');
  t.is(outcomeOf('no'), 'failed');
});

test('the numbers of a prompt that is too long are read from the fields or the words', (t) => {
  const numbers = (words: string) => {
    const { contextTokens, promptTokens } = decide({ fault: 'status', status: 400, words });
    return [promptTokens, contextTokens];
  };
  t.deepEqual(
    numbers("This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."),
    [9_001, 8_192],
  );
  t.deepEqual(numbers('prompt is too long: 209,303 tokens > 200,000 maximum'), [209_303, 200_000]);
  t.deepEqual(numbers('prompt is too long'), [undefined, undefined]);
  const said = readSaidBody(
    '{"error":{"type":"exceed_context_size_error","n_prompt_tokens":900,"n_ctx":512,"message":"x"}}',
  );
  const decision = decideOutcome(new BackendError('status', 'x', { status: 400, said }), { hasText: false });
  t.like(decision, { outcome: 'too_long', promptTokens: 900, contextTokens: 512 });
});

test('a code or type that is not of a known vocabulary is kept nowhere', (t) => {
  const said = readSaidBody('{"error":{"type":"invalid_request_error","code":"my secret question","message":"x"}}');
  const { kinds } = decideOutcome(new BackendError('status', 'x', { status: 400, said }), { hasText: false });
  t.deepEqual(kinds, ['invalid_request_error']);
});

/** Words that pause a backend if they are its own, in places where they are a client's. */
const ofOperators = [
  'Your credit balance is too low to access the API. Please go to Plans & Billing to upgrade or purchase credits.',
  'insufficient_quota',
  'billing_not_active',
  'API key not valid. Please pass a valid API key.',
  'User location is not supported for the API use.',
  'invalid_api_key',
];
for (const words of ofOperators) {
  test(`a client's own words pause nothing: ${words}`, (t) => {
    const quotes = [
      { error: { message: `Invalid message: "${words}"`, type: 'invalid_request_error' } },
      { error: { message: `tools.0.name: '${words}' does not match`, param: words } },
      { detail: [{ loc: ['body', words], msg: 'Extra inputs are not permitted' }] },
      { detail: [{ loc: ['body', 'messages', 0], msg: words }] },
      { error: { message: words, type: 'invalid_request_error', param: 'messages' } }.error.message === words
        ? { error: { message: `${words} is not a role` } }
        : {},
    ];
    for (const body of quotes) {
      const said = readSaidBody(JSON.stringify(body));
      const { outcome } = decideOutcome(new BackendError('status', 'x', { status: 400, said }), { hasText: false });
      t.is(outcome, 'refused', JSON.stringify(body));
    }
  });
}

test('words are found wherever servers put them', (t) => {
  const words = 'The role is unknown.';
  const bodies: unknown[] = [
    { error: words },
    { error: { message: words } },
    { message: words, object: 'error' },
    { error: { message: { detail: words } } },
    { message: { detail: words } },
    { detail: words },
    { errors: [{ message: words }] },
    { errors: [words] },
    [{ error: { code: 400, message: words, status: 'INVALID_ARGUMENT' } }],
    { error: { error: { message: words } } },
  ];
  for (const body of bodies) t.is(readSaidBody(JSON.stringify(body)).words, words, JSON.stringify(body));
  t.is(readSaidBody(words).words, words);
  const fastApi = {
    detail: [{ type: 'literal_error', loc: ['body', 'messages', 0, 'role'], msg: 'Bad role', input: 'secret' }],
  };
  t.is(readSaidBody(JSON.stringify(fastApi)).words, 'body.messages.0.role: Bad role');
  for (const body of [
    '',
    '{}',
    '[]',
    'null',
    '<html>no</html>',
    '[1,2]',
    'x'.repeat(501),
    '{"error":{"message":""}}',
  ]) {
    t.is(readSaidBody(body).words, '', body);
  }
});
