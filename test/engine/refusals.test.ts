import { APIError as AnthropicError } from '@anthropic-ai/sdk';
import test from 'ava';
import { APIError } from 'openai';
import { forms } from './ask.ts';
import { openEngineTests } from './open-engine-tests.ts';

const { engineTestAlone, account } = openEngineTests(test, {
  chat: { model: 'chat', slots: 4, contextTokens: 1_024, endpoints: forms },
  pictured: { model: 'chat', slots: 4, contextTokens: 1_024, endpoints: ['chat'] },
  history: { model: 'tools', slots: 4, contextTokens: 1_024, endpoints: ['chat'] },
  embed: { model: 'embed', slots: 4, contextTokens: 512, endpoints: ['embeddings'] },
});

const short = [{ role: 'user' as const, content: 'Hello' }];
const long = 'the water of a river '.repeat(1_000);
/** No picture: only what its first bytes would be. */
const picture = { type: 'image_url' as const, image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } };

engineTestAlone('a prompt beyond the context, in the words that OpenAI’s clients know', async (t) => {
  const { openai } = await account();
  const messages = [{ role: 'user' as const, content: long }];
  const asked = { model: 'chat', messages, max_tokens: 8 };
  for (const ask of [
    () => openai.chat.completions.create(asked),
    () => openai.chat.completions.create({ ...asked, stream: true }),
    () => openai.completions.create({ model: 'chat', prompt: long, max_tokens: 8 }),
    () => openai.responses.create({ model: 'chat', input: long, max_output_tokens: 8 }),
  ]) {
    const error = await t.throwsAsync(async () => void (await ask()), { instanceOf: APIError });
    t.like(error, { status: 400, code: 'context_length_exceeded' });
  }
});

engineTestAlone('a prompt beyond the context, in the words that Anthropic’s clients know', async (t) => {
  const { anthropic } = await account();
  const asked = { model: 'chat', messages: [{ role: 'user' as const, content: long }], max_tokens: 8 };
  for (const stream of [false, true]) {
    const error = await t.throwsAsync(async () => void (await anthropic.messages.create({ ...asked, stream })), {
      instanceOf: AnthropicError,
    });
    t.is(error?.status, 400);
    t.regex(error?.message ?? '', /prompt is too long: \d+ tokens > 1024 maximum/);
  }
});

engineTestAlone('pictures that the engine answers with 500 do not take its model from another account', async (t) => {
  const [one, other] = [await account(), await account()];
  const content = [{ type: 'text' as const, text: 'What is it?' }, picture];
  for (let turn = 0; turn < 6; turn++) {
    const answer = await one.post('/v1/chat/completions', { model: 'pictured', messages: [{ role: 'user', content }] });
    t.true(answer.status >= 400, await answer.text());
    await other.openai.chat.completions.create({ model: 'pictured', messages: short, max_tokens: 8 });
  }
});

engineTestAlone('a picture for a model that reads text only is the client’s error', async (t) => {
  const { openai } = await account();
  const content = [{ type: 'text' as const, text: 'What is it?' }, picture];
  const asked = { model: 'pictured', messages: [{ role: 'user' as const, content }], max_tokens: 8 };
  const error = await t.throwsAsync(async () => void (await openai.chat.completions.create(asked)), {
    instanceOf: APIError,
  });
  t.is(error?.status, 400);
  t.regex(error?.message ?? '', /image input is not supported/);
});

engineTestAlone(
  'a tool call in a history whose arguments are no JSON does not take the model from others',
  async (t) => {
    const [one, other] = [await account(), await account()];
    const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city": ' } };
    const messages = [
      ...short,
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: 'call_1', content: 'rain' },
    ];
    for (let turn = 0; turn < 6; turn++) {
      const answer = await one.post('/v1/chat/completions', { model: 'history', messages, max_tokens: 8 });
      t.true(answer.status >= 400, await answer.text());
      await other.openai.chat.completions.create({ model: 'history', messages: short, max_tokens: 8 });
    }
  },
);

engineTestAlone('texts that the engine answers with 500 do not take its model from another account', async (t) => {
  const [one, other] = [await account(), await account()];
  for (let turn = 0; turn < 6; turn++) {
    const answer = await one.post('/v1/embeddings', { model: 'embed', input: long });
    t.true(answer.status >= 400, await answer.text());
    await other.openai.embeddings.create({ model: 'embed', input: 'Hello' });
  }
});

engineTestAlone('a text that is too long for a vector is the client’s error', async (t) => {
  const { openai } = await account();
  const error = await t.throwsAsync(
    async () => void (await openai.embeddings.create({ model: 'embed', input: long })),
    {
      instanceOf: APIError,
    },
  );
  t.is(error?.status, 400);
  // The engine says so, or it has named its context and is not asked.
  t.regex(error?.message ?? '', /too large to process|too long for the context/);
});

engineTestAlone('after all these refusals the engine answers', async (t) => {
  const { openai } = await account();
  const { usage } = await openai.chat.completions.create({ model: 'chat', messages: short, max_tokens: 8 });
  t.true((usage?.completion_tokens ?? 0) > 0);
});
