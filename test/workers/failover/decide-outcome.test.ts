import test from 'ava';
import { BackendError, readSaid, readSaidBody } from '../../../shared/endpoints/answers/backend-error.ts';
import { operatorRules } from '../../../workers/failover/backend-rules.ts';
import { decide, decideOutcome, rules } from '../../../workers/failover/decide-outcome.ts';
import { treatments } from '../../../workers/failover/outcome.ts';

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
  [503, { error: 'Model meta-llama/Llama-3.1-8B is currently loading', estimated_time: 20 }, 'loading'],
  [503, { detail: 'The model is being loaded.' }, 'loading'],
  [503, { error: { message: "Model 'llama' is not ready yet, please try again later." } }, 'loading'],
  [503, { error: 'Model with name llama is not ready.' }, 'loading'],
  [503, { error: { message: 'Cannot render "the model x is starting"' } }, 'failed'],
  [503, { error: { message: 'Model x is starting is no role of a message' } }, 'failed'],
  [503, { detail: [{ loc: ['body', 'messages', 0], msg: 'Model x is loading' }] }, 'failed'],
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

/** Words that pause a backend if they are its own: all codes, and all forms of the sentences. */
const ofOperators = operatorRules.flatMap((rule) => {
  const sentences = rule.sentence === undefined ? [] : [rule.example.words ?? '', ...formsOf(rule.sentence)];
  return [...(rule.kinds ?? []), ...sentences].map((words) => ({ rule, words }));
});

/** What a sentence without repetitions accepts. None of one that is not whole. */
function formsOf({ source }: RegExp): string[] {
  if (!/^\^.*\$$/.test(source)) return [];
  const digits = source.slice(1, -1).replace(/\\d\{(\d)\}/g, (_, count: string) => '1'.repeat(Number(count)));
  return expanded(digits).map((form) => form.replaceAll('\\', ''));
}

/** One form for each alternative of each group. */
function expanded(source: string): string[] {
  const group = /\(\?:([^()]*)\)(\?)?/.exec(source);
  if (group === null) return [source];
  const [all, alternatives = '', isOptional] = group;
  const forms = [...alternatives.split('|'), ...(isOptional === undefined ? [] : [''])];
  return forms.flatMap((form) => expanded(source.replace(all, form)));
}

test('the words that pause a backend are all that the rules have', (t) => {
  t.true(ofOperators.length >= 30, String(ofOperators.length));
  for (const { rule, words } of ofOperators.filter(({ rule }) => rule.sentence !== undefined))
    t.regex(words, rule.sentence ?? /^$/);
});

test('words that pause a backend pause nothing where a client wrote them: a message, a name of a tool, a field', (t) => {
  for (const { words } of ofOperators) {
    const quotes = [
      { error: { message: `Invalid message: "${words}"`, type: 'invalid_request_error' } },
      { error: { message: `${words} is not a role` } },
      { error: { message: `tools.0.name: '${words}' does not match`, param: words } },
      { detail: [{ loc: ['body', words], msg: 'Extra inputs are not permitted' }] },
      { detail: [{ loc: ['body', 'messages', 0], msg: words }] },
      { error: { message: `Invalid message: ${'x '.repeat(5_000)}${words}` } },
      { error: { message: `${words} ${'x '.repeat(5_000)}` } },
      { error: { message: `${words} ${'x'.repeat(5_000)}` } },
    ];
    for (const body of quotes) {
      for (const [status, outcome] of [
        [400, 'refused'],
        [429, 'busy'],
      ] as const) {
        const said = readSaidBody(JSON.stringify(body));
        const decision = decideOutcome(new BackendError('status', 'x', { status, said }), { hasText: false });
        t.is(decision.outcome, outcome, `${status} ${JSON.stringify(body).slice(0, 200)}`);
      }
    }
  }
});

test('of long words only the beginning is read, up to a space', (t) => {
  const said = readSaid({ error: { message: `${'word '.repeat(399)}${'k'.repeat(4_194_304)}` } });
  t.is(said?.words, `${'word '.repeat(399)}…`);
});

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
