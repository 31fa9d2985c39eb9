import { APIError as AnthropicError } from '@anthropic-ai/sdk';
import test from 'ava';
import { APIError } from 'openai';
import { openScripted } from '../../support/endpoints/open-scripted.ts';
import { saidBy } from '../../support/endpoints/scripted-backend.ts';

/** A model server that does this if the request has the word, and answers otherwise. */
type Script = Parameters<typeof openScripted>[1][string];
const unless =
  (word: string, refusal: ReturnType<Script>): Script =>
  (_asked, text, path) =>
    text.includes(word) ? refusal : { events: saidBy(path) };
const badTools = { error: { code: 500, message: 'The arguments of a tool are no JSON', type: 'server_error' } };
const poison = unless('BADTOOL', { status: 500, body: badTools });
const noCredit =
  'Your credit balance is too low to access the API. Please go to Plans & Billing to upgrade or purchase credits.';
const long = {
  type: 'BadRequestError',
  code: 400,
  message: "The input (9500 tokens) is longer than the model's context length (8192 tokens).",
};
const failed = { id: 'r', object: 'response', output: [], status: 'failed' };
const created = { type: 'response.created', response: { ...failed, status: 'in_progress' } };

const { account, asked, stack } = openScripted(
  test,
  {
    'poison-a': poison,
    'poison-b': poison,
    'in-stream': unless('TOOLONG', { events: [{ error: long }, '[DONE]'] }),
    'in-messages': unless('TOOLONG', {
      events: [
        {
          type: 'error',
          error: { type: 'invalid_request_error', message: 'prompt is too long: 250000 tokens > 200000 maximum' },
        },
      ],
    }),
    'in-responses': unless('TOOLONG', {
      events: [
        created,
        {
          type: 'response.failed',
          response: { ...failed, error: { code: 'context_length_exceeded', message: 'Too long.' } },
        },
      ],
    }),
    unpaid: () => ({
      status: 400,
      body: { type: 'error', error: { type: 'invalid_request_error', message: noCredit } },
    }),
    healthy: (_asked, _text, path) => ({ events: saidBy(path) }),
    fastapi: unless('BADROLE', {
      status: 422,
      body: {
        detail: [
          { type: 'literal_error', loc: ['body', 'messages', 0, 'role'], msg: "Input should be 'user'", input: 'x' },
        ],
      },
    }),
    gemini: unless('BADFIELD', {
      status: 400,
      body: [{ error: { code: 400, message: 'Unknown name "seed".', status: 'INVALID_ARGUMENT' } }],
    }),
    coded: unless('BADVALUE', {
      status: 400,
      body: {
        error: {
          message: 'Invalid value for temperature.',
          type: 'invalid_request_error',
          param: 'temperature',
          code: 'invalid_value',
        },
      },
    }),
  },
  {
    models: {
      poisoned: ['poison-a', 'poison-b'],
      unpaid: ['unpaid', 'healthy'],
      ...Object.fromEntries(
        ['in-stream', 'in-messages', 'in-responses', 'fastapi', 'gemini', 'coded'].map((name) => [name, [name]]),
      ),
    },
  },
);

const chat = (model: string, content = 'Hello', stream = false) => ({
  ...{ model, stream, max_tokens: 50 },
  messages: [{ role: 'user' as const, content }],
});
type Body = { error?: unknown; code?: string; retryable?: boolean };

test('requests of one account that a server answers with 500 take no model from another account', async (t) => {
  const [one, other] = [await account(), await account()];
  for (let turn = 0; turn < 8; turn++) {
    const failed = await one.post('/v1/chat/completions', chat('poisoned', 'BADTOOL', turn % 2 === 0));
    t.is(failed.status, 503, await failed.text());
    const answered = await other.post('/v1/chat/completions', chat('poisoned'));
    t.is(answered.status, 200, await answered.text());
  }
  t.like(await one.usageWith(8), { requests: 8, failed: 8, chargedTokens: 0 });
  t.like(await other.usageWith(8), { requests: 8, failed: 0, chargedTokens: 8 * 9 });
});

test('a chat that is refused in its stream is 400 with the code that clients know, costs nothing, and others are answered', async (t) => {
  const [one, other] = [await account(), await account()];
  for (let turn = 0; turn < 6; turn++) {
    const ask = one.openai.chat.completions.create(chat('in-stream', 'TOOLONG', turn % 2 === 0));
    const error = await t.throwsAsync(async () => void (await ask), { instanceOf: APIError });
    t.like(error, { status: 400, code: 'context_length_exceeded', param: 'messages' });
    t.is(
      (await other.openai.chat.completions.create({ ...chat('in-stream'), stream: false })).choices[0]?.message.content,
      'Hi there',
    );
  }
  t.like(await one.usageWith(6), { requests: 6, chargedTokens: 0 });
});

test('a message that is refused in its stream is 400 in the words that clients know, and others are answered', async (t) => {
  const [one, other] = [await account(), await account()];
  for (let turn = 0; turn < 6; turn++) {
    const ask = one.anthropic.messages.create(chat('in-messages', 'TOOLONG', turn % 2 === 0));
    const error = await t.throwsAsync(async () => void (await ask), { instanceOf: AnthropicError });
    t.is(error?.status, 400);
    t.like(error?.error, { type: 'error', error: { type: 'invalid_request_error' } });
    t.regex(error?.message ?? '', /prompt is too long: 250000 tokens > 200000 maximum/);
    await other.anthropic.messages.create(chat('in-messages'));
  }
  t.like(await one.usageWith(6), { requests: 6, chargedTokens: 0 });
});

test('a response that fails before its first token because of its context is 400 with the code that clients know', async (t) => {
  const [one, other] = [await account(), await account()];
  for (const stream of [true, false, true]) {
    const ask = one.openai.responses.create({ model: 'in-responses', input: 'TOOLONG', stream });
    const error = await t.throwsAsync(async () => void (await ask), { instanceOf: APIError });
    t.like(error, { status: 400, code: 'context_length_exceeded', param: 'input' });
    t.is((await other.openai.responses.create({ model: 'in-responses', input: 'Hello' })).output_text, 'Hi there');
  }
  t.like(await one.usageWith(3), { requests: 3, chargedTokens: 0 });
});

test('a server whose account has no credit costs no request, and its words reach neither client nor log', async (t) => {
  const accounts = await Promise.all(Array.from({ length: 10 }, account));
  for (const [turn, { post }] of accounts.entries()) {
    const answer = await post('/v1/chat/completions', chat('unpaid', 'Hello', turn % 2 === 0));
    const text = await answer.text();
    t.is(answer.status, 200, text);
    t.false(text.includes('credit'));
  }
  t.true(asked('unpaid').length >= 1, 'it was asked');
  t.true(asked('unpaid').length <= 3, 'and then not for a while');
  const lines = stack()
    .started()
    .flatMap(({ logs, errors }) => [JSON.stringify(logs), errors()]);
  t.false(lines.some((line) => line.includes('credit balance')));
});

const worded: Record<string, [model: string, word: string, said: RegExp]> = {
  'a list of FastAPI': ['fastapi', 'BADROLE', /messages\.0\.role.*Input should be 'user'/],
  'a list with one error': ['gemini', 'BADFIELD', /Unknown name "seed"/],
};
for (const [title, [model, word, said]] of Object.entries(worded)) {
  test(`a refusal in ${title} reaches the client in its words, and costs nothing`, async (t) => {
    const { post, openai, usageWith } = await account();
    const answer = await post('/v1/chat/completions', chat(model, word));
    const body = (await answer.json()) as Body;
    t.is(answer.status, 400);
    t.is(body.code, 'VALIDATION_ERROR');
    t.regex(JSON.stringify(body), new RegExp(said.source.replaceAll('"', '\\\\"')));
    const error = await t.throwsAsync(
      async () => void (await openai.chat.completions.create(chat(model, word, true))),
      {
        instanceOf: APIError,
      },
    );
    t.is(error?.status, 400);
    t.regex(error?.message ?? '', said);
    t.like(await usageWith(2), { requests: 2, chargedTokens: 0 });
  });
}

test('code and param of a refusal are kept where clients of OpenAI read them', async (t) => {
  const { openai, post } = await account();
  const error = await t.throwsAsync(
    async () => void (await openai.chat.completions.create(chat('coded', 'BADVALUE'))),
    {
      instanceOf: APIError,
    },
  );
  t.like(error, { status: 400, code: 'invalid_value', param: 'temperature', type: 'invalid_request_error' });
  t.regex(error?.message ?? '', /Invalid value for temperature/);
  const plain = await post('/v1/chat/completions', chat('coded', 'BADVALUE'));
  t.like(await plain.json(), { code: 'VALIDATION_ERROR' });
});
