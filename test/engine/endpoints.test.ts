import test from 'ava';
import { probeBackends } from '../../ingress/check-plan/probe-backends.ts';
import { parsedPlan } from '../support/parsed-plan.ts';
import { ask, forms } from './ask.ts';
import { openEngineTests, until } from './open-engine-tests.ts';

const chatting = { slots: 4, contextTokens: 4_096, endpoints: forms };
const { engineTest, engineTestAlone, enginesOf, account } = openEngineTests(test, {
  chat: { ...chatting, model: 'chat', count: 2 },
  tools: { ...chatting, model: 'tools' },
  several: { ...chatting, model: 'chat' },
  embed: { model: 'embed', slots: 4, contextTokens: 512, endpoints: ['embeddings'] },
  rank: { model: 'rank', slots: 4, contextTokens: 512, endpoints: ['rerank'] },
});

const messages = [{ role: 'user' as const, content: 'Hello' }];
/** Fewer than the engine's own limit, so that some answers reach it. */
const limit = 60;
const requests = 200;
const clients = 8;
const cityOf = {
  type: 'object' as const,
  properties: { city: { type: 'string' as const, maxLength: 12 } },
  required: ['city'],
};

/** An answer is whole if it has reached its limit, or ended before that. */
function isWhole(isAtLimit: boolean, tokens: number | undefined): boolean {
  return tokens !== undefined && (isAtLimit ? tokens === limit : tokens >= 1 && tokens <= limit);
}

engineTest('a chat, whole and streamed', async (t) => {
  const { openai } = await account();
  const asked = { model: 'chat', messages, max_tokens: limit };
  const { choices, usage } = await openai.chat.completions.create(asked);
  t.is(typeof choices[0]?.message.content, 'string');
  t.true(isWhole(choices[0]?.finish_reason === 'length', usage?.completion_tokens), JSON.stringify({ choices, usage }));

  const streamed = await openai.chat.completions
    .stream({ ...asked, stream_options: { include_usage: true } })
    .finalChatCompletion();
  t.is(typeof streamed.choices[0]?.message.content, 'string');
  t.true(isWhole(streamed.choices[0]?.finish_reason === 'length', streamed.usage?.completion_tokens));
  t.is(streamed.usage?.prompt_tokens, usage?.prompt_tokens);
});

engineTest('a completion, whole and streamed', async (t) => {
  const { openai } = await account();
  const asked = { model: 'chat', prompt: 'Hello', max_tokens: limit };
  const { choices, usage } = await openai.completions.create(asked);
  t.true(isWhole(choices[0]?.finish_reason === 'length', usage?.completion_tokens), JSON.stringify({ choices, usage }));

  const stream = await openai.completions.create({ ...asked, stream: true, stream_options: { include_usage: true } });
  const chunks = await Array.fromAsync(stream);
  const reason = chunks.flatMap(({ choices }) => choices).findLast((choice) => choice.finish_reason)?.finish_reason;
  t.true(isWhole(reason === 'length', chunks.at(-1)?.usage?.completion_tokens), JSON.stringify(chunks.slice(-3)));
});

engineTest('a response, whole and streamed', async (t) => {
  const { openai } = await account();
  const asked = { model: 'chat', input: 'Hello', max_output_tokens: limit };
  const { status, output_text, usage } = await openai.responses.create(asked);
  t.true(isWhole(false, usage?.output_tokens), JSON.stringify({ status, usage }));
  t.is(typeof output_text, 'string');

  const events = await Array.fromAsync(await openai.responses.create({ ...asked, stream: true }));
  const text = events.flatMap((event) => (event.type === 'response.output_text.delta' ? [event.delta] : [])).join('');
  const last = events.at(-1);
  if (last?.type !== 'response.completed') return t.fail(JSON.stringify(last));
  t.true(isWhole(false, last.response.usage?.output_tokens), JSON.stringify(last));
  const [item] = last.response.output;
  t.deepEqual(item?.type === 'message' && item.content.map((part) => part.type === 'output_text' && part.text), [text]);
});

// The engine's events have no `output_index` and no `content_index`.
engineTest('the helper for streamed responses of the official package puts the response together', async (t) => {
  const { openai } = await account();
  const stream = openai.responses.stream({ model: 'chat', input: 'Hello', max_output_tokens: limit });
  const texts: string[] = [];
  stream.on('response.output_text.delta', ({ delta }) => texts.push(delta));
  const { output_text, usage } = await stream.finalResponse();
  t.true(isWhole(false, usage?.output_tokens));
  t.is(output_text, texts.join(''));
});

// The engine knows no answer of an assistant without a type.
engineTest('the items of a conversation need no type', async (t) => {
  const { openai } = await account();
  const input = [...messages, { role: 'assistant' as const, content: 'Hi' }, ...messages];
  const { usage } = await openai.responses.create({ model: 'chat', input, max_output_tokens: limit });
  t.true(isWhole(false, usage?.output_tokens));
});

/** The model decides how many tools it calls. */
async function untilSeveral<T>(ask: () => Promise<{ answer: T; calls: number }>): Promise<T> {
  for (let attempt = 0; attempt < 50; attempt++) {
    const { answer, calls } = await ask();
    if (calls > 1) return answer;
  }
  throw new Error('no answer has two calls');
}

// The engine begins each item before it ends the one before.
engineTest('several calls of tools in one answer, by the helpers of the official packages', async (t) => {
  const { openai, anthropic } = await account();
  const tool = { type: 'function' as const, name: 'weather', description: '', parameters: cityOf, strict: false };
  const response = await untilSeveral(async () => {
    const asked = { model: 'tools', input: 'Hello', max_output_tokens: 300, parallel_tool_calls: true };
    const answer = await openai.responses.stream({ ...asked, tools: [tool], tool_choice: 'required' }).finalResponse();
    return { answer, calls: answer.output.filter(({ type }) => type === 'function_call').length };
  });
  t.is(new Set(response.output.map(({ id }) => id)).size, response.output.length);

  const { content, blocks } = await untilSeveral(async () => {
    const blocks: unknown[] = [];
    const asked = { model: 'tools', messages, max_tokens: 300, tool_choice: { type: 'any' as const } };
    const stream = anthropic.messages.stream({ ...asked, tools: [{ name: 'weather', input_schema: cityOf }] });
    const { content } = await stream.on('contentBlock', (block) => blocks.push(block)).finalMessage();
    return { answer: { content, blocks }, calls: content.filter(({ type }) => type === 'tool_use').length };
  });
  t.deepEqual(blocks, content);
});

engineTest('a message, whole and streamed', async (t) => {
  const { anthropic } = await account();
  const asked = { model: 'chat', messages, max_tokens: limit };
  const { stop_reason, usage } = await anthropic.messages.create(asked);
  t.true(isWhole(stop_reason === 'max_tokens', usage.output_tokens), JSON.stringify({ stop_reason, usage }));

  const streamed = await anthropic.messages.stream(asked).finalMessage();
  t.true(isWhole(streamed.stop_reason === 'max_tokens', streamed.usage.output_tokens), JSON.stringify(streamed));
  t.is(streamed.content[0]?.type, 'text');
});

engineTest('vectors of texts, as numbers and as bytes', async (t) => {
  const { openai, post } = await account();
  const asked = { model: 'embed', input: ['Hello', 'the water of a river'] };
  const { data, usage } = await openai.embeddings.create(asked); // asks for bytes and decodes them
  const written = await post('/v1/embeddings', { ...asked, encoding_format: 'float' });
  const numbers = (await written.json()) as { data: { embedding: number[] }[] };
  t.is(data.length, 2);
  for (const [index, { embedding }] of data.entries()) {
    t.is(embedding.length, 64);
    t.true(Math.abs(Math.hypot(...embedding) - 1) < 1e-3, 'the engine makes vectors of length 1');
    for (const [place, value] of (numbers.data[index]?.embedding ?? []).entries()) {
      t.true(Math.abs(value - (embedding[place] ?? Number.NaN)) < 1e-5);
    }
  }
  t.true(usage.prompt_tokens > 2);
});

engineTest('ranked documents', async (t) => {
  const { post } = await account();
  const documents = ['the water of a river', 'winter', 'Hello'];
  const answer = await post('/v1/rerank', { model: 'rank', query: 'Hello', documents });
  t.is(answer.status, 200);
  const { results } = (await answer.json()) as { results: { index: number; relevance_score: number }[] };
  t.deepEqual(results.map(({ index }) => index).toSorted(), [0, 1, 2]);
  t.is(new Set(results.map(({ relevance_score }) => relevance_score)).size, 3);
});

engineTest(
  'a required tool is called with arguments that fit its schema, in each endpoint that has tools',
  async (t) => {
    const { openai, anthropic } = await account();
    const called = (text: string) => typeof (JSON.parse(text) as { city?: unknown }).city === 'string';
    const described = { name: 'weather', description: 'The weather of a city', parameters: cityOf };
    const chat = {
      ...{ model: 'tools', messages, max_tokens: 2_000, tool_choice: 'required' as const },
      parallel_tool_calls: false,
      tools: [{ type: 'function' as const, function: described }],
    };
    const whole = await openai.chat.completions.create(chat);
    const streamed = await openai.chat.completions.stream(chat).finalChatCompletion();
    for (const { choices } of [whole, streamed]) {
      const [choice] = choices;
      t.is(choice?.finish_reason, 'tool_calls');
      const [call] = choice?.message.tool_calls ?? [];
      t.true(call?.type === 'function' && call.function.name === 'weather' && called(call.function.arguments));
    }

    const tool = { ...described, type: 'function' as const, strict: true };
    const { output } = await openai.responses.create({
      ...{ model: 'tools', input: 'Hello', max_output_tokens: 2_000 },
      ...{ tools: [tool], tool_choice: 'required', parallel_tool_calls: false },
    });
    const call = output.find((item) => item.type === 'function_call');
    t.true(call?.name === 'weather' && called(call.arguments), JSON.stringify(output));

    const { content, stop_reason } = await anthropic.messages.create({
      ...{ model: 'tools', messages, max_tokens: 2_000, tool_choice: { type: 'any', disable_parallel_tool_use: true } },
      tools: [{ name: 'weather', description: 'The weather of a city', input_schema: cityOf }],
    });
    const use = content.find((block) => block.type === 'tool_use');
    t.is(stop_reason, 'tool_use');
    t.true(use?.name === 'weather' && called(JSON.stringify(use.input)), JSON.stringify(content));
  },
);

engineTest('an answer that must fit a schema is JSON that fits it', async (t) => {
  const { openai } = await account();
  const schema = {
    ...{ type: 'object', additionalProperties: false, required: ['digit', 'kind'] },
    properties: { digit: { type: 'integer', minimum: 0, maximum: 9 }, kind: { enum: ['river', 'stone'] } },
  };
  const { choices } = await openai.chat.completions.create({
    ...{ model: 'chat', messages, max_tokens: 2_000 },
    response_format: { type: 'json_schema', json_schema: { name: 'thing', schema, strict: true } },
  });
  t.is(choices[0]?.finish_reason, 'stop');
  const { digit, kind } = JSON.parse(choices[0]?.message.content ?? '') as { digit: number; kind: string };
  t.true(Number.isInteger(digit) && digit >= 0 && digit <= 9 && ['river', 'stone'].includes(kind));
});

engineTest('each token of a chat has its probability, and these tokens make up the text', async (t) => {
  const { openai } = await account();
  const asked = { model: 'chat', messages, max_tokens: 8, logprobs: true, top_logprobs: 2 };
  const whole = await openai.chat.completions.create(asked);
  const streamed = await openai.chat.completions.stream(asked).finalChatCompletion();
  for (const { choices } of [whole, streamed]) {
    const tokens = choices[0]?.logprobs?.content ?? [];
    t.true(tokens.length > 0);
    t.is(tokens.map(({ token }) => token).join(''), choices[0]?.message.content ?? '');
    for (const { logprob, top_logprobs } of tokens) t.true(logprob <= 0 && top_logprobs.length === 2);
  }
});

/** What the engines of this model have read and written so far. Tokens of a prompt that were in the cache of a slot are counted apart. */
async function counted(model: 'chat') {
  const sum = async (...metrics: string[]) => {
    const counts = enginesOf(model).flatMap((engine) => metrics.map((metric) => engine.count(metric)));
    return (await Promise.all(counts)).reduce((total, one) => total + one, 0);
  };
  const [promptTokens, completionTokens] = await Promise.all([
    sum('prompt_tokens_total', 'prompt_tokens_cached_total'),
    sum('tokens_predicted_total'),
  ]);
  return { promptTokens, completionTokens };
}

engineTestAlone('the usage of 200 requests is exactly what two engines have counted', async (t) => {
  const service = await account();
  const before = await counted('chat');
  let begun = 0;
  async function client(): Promise<void> {
    for (let turn = begun++; turn < requests; turn = begun++) {
      const form = forms[turn % forms.length] ?? 'chat';
      const ending = await ask(service, { form, stream: turn % 8 < 4, model: 'chat', limit: 20 + turn });
      t.true(ending.isComplete, JSON.stringify(ending));
    }
  }
  await Promise.all(Array.from({ length: clients }, client));
  const { promptTokens, completionTokens } = await service.usageWith(requests);
  await until('the engines have counted the last one', async () => {
    return (await counted('chat')).completionTokens - before.completionTokens >= completionTokens;
  });
  const now = await counted('chat');
  t.is(now.completionTokens - before.completionTokens, completionTokens);
  t.is(now.promptTokens - before.promptTokens, promptTokens);
});

// The engine reports the tokens of one choice.
engineTestAlone('four choices are charged as what was generated', async (t) => {
  const asked = await account();
  const before = await counted('chat');
  const { choices } = await asked.openai.chat.completions.create({ model: 'chat', messages, max_tokens: limit, n: 4 });
  t.is(choices.length, 4);
  const { completionTokens } = await asked.usageWith(1);
  const now = await counted('chat');
  t.true(completionTokens >= 0.8 * (now.completionTokens - before.completionTokens), String(completionTokens));
});

// The engine's streams of several prompts begin with `data: null`.
engineTest('a completion of several prompts, whole and streamed', async (t) => {
  const { openai } = await account();
  const asked = { model: 'several', prompt: ['Hello', 'water', 'winter'], max_tokens: limit };
  const { choices } = await openai.completions.create(asked);
  t.is(choices.length, 3);
  const chunks = await Array.fromAsync(await openai.completions.create({ ...asked, stream: true }));
  const ended = chunks.flatMap(({ choices }) => choices).filter(({ finish_reason }) => finish_reason);
  t.deepEqual(ended.map(({ index }) => index).toSorted(), [0, 1, 2]);
});

// The engine says `end_turn`, and names the sequence.
engineTest('a message that ended at a stop sequence says so', async (t) => {
  const { anthropic } = await account();
  // Without chance, the answer has this letter again.
  const asked = { model: 'chat', messages, max_tokens: 200, temperature: 0 };
  const { content } = await anthropic.messages.create(asked);
  const [letter = ''] = /[a-z]/.exec(content.map((part) => (part.type === 'text' ? part.text : '')).join('')) ?? [];
  const ending = { ...asked, stop_sequences: [letter] };
  const ended = { stop_reason: 'stop_sequence', stop_sequence: letter } as const;
  t.like(await anthropic.messages.create(ending), ended);
  t.like(await anthropic.messages.stream(ending).finalMessage(), ended);
});

engineTest('what it says of itself: its version, the context of a slot, and its slots', async (t) => {
  const { planFile } = parsedPlan(({ models, backends }) => {
    Object.assign(backends['onprem-a'], { url: `${enginesOf('chat')[0]?.url}/v1`, health: 'health' });
    Reflect.deleteProperty(backends, 'cloud');
    Object.assign(models['small-chat'], { backends: ['onprem-a'] });
  });
  const { lines, isWell } = await probeBackends(planFile, { variableOf: () => undefined });
  t.true(isWell, lines.join());
  t.regex(lines.join(), /^onprem-a: llama\.cpp \S+, \d+ ms, has small-chat, context 4096, 4 at once$/);
});
