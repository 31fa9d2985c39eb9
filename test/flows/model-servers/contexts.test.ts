import { APIError as AnthropicError } from '@anthropic-ai/sdk';
import test from 'ava';
import { APIError } from 'openai';
import { openScripted } from '../../support/endpoints/open-scripted.ts';
import {
  chunk,
  type RequestFields,
  type ScriptedAnswer,
  saidBy,
  usageOf,
} from '../../support/endpoints/scripted-backend.ts';

const [small, large] = [8_192, 32_768];

/** The tokens of a prompt, which these servers count as words of four letters. */
const promptOf = ({ messages, input, prompt }: RequestFields) =>
  Math.floor(JSON.stringify(messages ?? input ?? prompt).split('four').length - 1);

/** A server that refuses what does not fit its context, as vLLM does. */
function serverOf(contextTokens: number, name: string) {
  return (asked: RequestFields, _text: string, path: string): ScriptedAnswer => {
    const prompt = promptOf(asked);
    const limit = Number(asked.max_completion_tokens ?? asked.max_tokens ?? asked.max_output_tokens);
    const ours = `This model's maximum context length is ${contextTokens} tokens`;
    const refused = (message: string) => ({
      status: 400,
      body: { error: { message, type: 'BadRequestError', code: 400 } },
    });
    if (prompt >= contextTokens) return refused(`${ours}. However, your prompt contains ${prompt} tokens.`);
    if (prompt + limit > contextTokens)
      return refused(`'max_tokens' is too large: ${limit}. ${ours} and your request has ${prompt} input tokens.`);
    if (path !== '/chat/completions') return { events: saidBy(path) };
    const ended = { ...chunk({}), choices: [], ...usageOf(prompt, 1) };
    return { events: [chunk({ role: 'assistant', content: name }, 'stop'), ended, '[DONE]'] };
  };
}

const { account } = openScripted(
  test,
  { small: serverOf(small, 'small'), large: serverOf(large, 'large') },
  { models: { either: ['small', 'large'] } },
);

const words = (tokens: number) => 'four'.repeat(tokens);
const messages = (tokens: number) => [{ role: 'user' as const, content: words(tokens) }];
const limits = {
  none: {},
  one: { max_tokens: 100 },
  other: { max_completion_tokens: 100 },
  both: { max_tokens: 100, max_completion_tokens: 100 },
};
type Limits = keyof typeof limits;
const limited = ['one', 'other', 'both'] as const;

/** Tokens of the prompt; limits of the client; which servers may answer, or none. */
const prompts: readonly (readonly [tokens: number, limits: readonly Limits[], by: readonly string[]])[] = [
  [1_000, ['none', ...limited], ['small', 'large']],
  [small - 100, limited, ['small', 'large']],
  [small - 99, limited, ['large']],
  [small - 1, ['none'], ['small', 'large']],
  [small, ['none', ...limited], ['large']],
  [large - 100, limited, ['large']],
  [large - 99, limited, []],
  [large - 1, ['none'], ['large']],
  [large, ['none', ...limited], []],
];
for (const [tokens, wishes, by] of prompts) {
  test(`a prompt of ${tokens} tokens, with limits: ${wishes.join(', ')}: ${by.join(' or ') || 'too long'}`, async (t) => {
    const { openai, usageWith } = await account();
    let charged = 0;
    for (const wish of wishes) {
      const ask = openai.chat.completions.create({ model: 'either', messages: messages(tokens), ...limits[wish] });
      if (by.length === 0) {
        const error = await t.throwsAsync(async () => void (await ask), { instanceOf: APIError }, wish);
        t.like(error, { status: 400, code: 'context_length_exceeded', param: 'messages' }, wish);
        continue;
      }
      const { choices } = await ask;
      t.true(by.includes(choices[0]?.message.content ?? ''), `${wish}: ${choices[0]?.message.content}`);
      charged += tokens + 1;
    }
    t.like(await usageWith(wishes.length), { requests: wishes.length, chargedTokens: charged });
  });
}

test('the clients of each endpoint read in their own words that a prompt is too long, streamed and whole', async (t) => {
  const { openai, anthropic, post, key } = await account();
  const tooLong = words(large);
  for (const stream of [false, true]) {
    for (const [ask, param] of [
      [() => openai.chat.completions.create({ model: 'either', messages: messages(large), stream }), 'messages'],
      [() => openai.completions.create({ model: 'either', prompt: tooLong, stream }), 'prompt'],
      [() => openai.responses.create({ model: 'either', input: tooLong, stream }), 'input'],
    ] as const) {
      const error = await t.throwsAsync(async () => void (await ask()), { instanceOf: APIError });
      t.like(error, { status: 400, code: 'context_length_exceeded', param });
    }
    const ask = () => anthropic.messages.create({ model: 'either', messages: messages(large), max_tokens: 9, stream });
    const error = await t.throwsAsync(async () => void (await ask()), { instanceOf: AnthropicError });
    t.is(error?.status, 400);
    t.regex(error?.message ?? '', new RegExp(`prompt is too long: ${large} tokens > ${large} maximum`));
  }
  // Codex sends its requests like this, and reads the status before any event.
  const headers = { authorization: `Bearer ${key}`, accept: 'text/event-stream' };
  const codex = await post(
    '/openai/v1/responses',
    { model: 'either', input: tooLong, stream: true, store: false },
    headers,
  );
  t.is(codex.status, 400);
  t.like(await codex.json(), { error: { code: 'context_length_exceeded', param: 'input' } });
  // Claude Code sends its key as Anthropic's clients do, and compacts on these words.
  const claude = { model: 'either', messages: messages(large), max_tokens: 9, stream: true };
  const answer = await post('/v1/messages?beta=true', claude, { 'x-api-key': key, 'anthropic-version': '2023-06-01' });
  t.is(answer.status, 400);
  t.like(await answer.json(), { type: 'error', error: { type: 'invalid_request_error' } });
});
