import test from 'ava';
import type OpenAI from 'openai';
import { openAccount, sumOf } from '../../support/endpoints/open-account.ts';
import { predictedResponse as predicted } from '../../support/endpoints/predicted.ts';
import { everyEndpoint } from '../../support/every-endpoint.ts';
import { openSharedStack } from '../../support/shared-stack.ts';

const shared = openSharedStack(test, { models: everyEndpoint });
const model = 'everything';

type Asked = {
  input: string | OpenAI.Responses.ResponseInput;
  tools?: OpenAI.Responses.FunctionTool[];
  max_output_tokens?: number;
  instructions?: string;
};

function usageOf({ promptTokens, completionTokens, reasoningTokens }: ReturnType<typeof predicted>) {
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: promptTokens + completionTokens,
  };
}

test('a response has the text, the usage and the model, and is charged exactly: whole, streamed and accumulated', async (t) => {
  const account = await openAccount(shared.stack(), 'responses-text');
  const asked = { input: 'Was heißt 東京 👩‍👩‍👧‍👦 ?', instructions: 'Antworte höflich.' };
  const expected = predicted(asked);
  for (const client of [account.openai, account.plain]) {
    const whole = await client.responses.create({ model, ...asked });
    t.is(whole.output_text, expected.text);
    t.like(whole, { model, status: 'completed', usage: usageOf(expected) });

    const events = await Array.fromAsync(await client.responses.create({ model, ...asked, stream: true }));
    t.is(
      events.map((event) => (event.type === 'response.output_text.delta' ? event.delta : '')).join(''),
      expected.text,
    );
    t.deepEqual(
      events.map((event) => event.sequence_number),
      [...events.keys()],
    );
    const last = events.at(-1);
    t.true(last?.type === 'response.completed' && last.response.model === model);

    const final = await client.responses.stream({ model, ...asked }).finalResponse();
    t.is(final.output_text, expected.text);
    t.like(final, { model, status: 'completed', usage: usageOf(expected) });
  }
  await account.assertCharged(t, 6, sumOf(...Array(6).fill(expected)));
});

test('reasoning and a refusal pass, whole and streamed', async (t) => {
  const account = await openAccount(shared.stack(), 'responses-reasoning');
  for (const input of ['think aloud', 'think aloud and refuse to answer']) {
    const expected = predicted({ input });
    for (const response of [
      await account.openai.responses.create({ model, input }),
      await account.openai.responses.stream({ model, input }).finalResponse(),
    ]) {
      const [reasoning, message] = response.output;
      t.true(reasoning?.type === 'reasoning' && reasoning.content?.[0]?.text === expected.reasoning);
      t.like(message, {
        content: [expected.refusal === '' ? { text: expected.text } : { type: 'refusal', refusal: expected.refusal }],
      });
      t.deepEqual(response.usage, usageOf(expected));
    }
  }
});

const tools: OpenAI.Responses.FunctionTool[] = [
  { type: 'function', name: 'weather', parameters: { type: 'object', properties: {} }, strict: false },
];

test('a function is called, and its result is answered in the next turn, whole and streamed', async (t) => {
  const account = await openAccount(shared.stack(), 'responses-tools');
  const first = { input: 'Please call weather', tools };
  const calling = predicted(first);
  const charged = [];
  for (const ask of [
    (asked: Asked) => account.openai.responses.create({ model, ...asked }),
    (asked: Asked) => account.openai.responses.stream({ model, ...asked }).finalResponse(),
  ]) {
    const { output } = await ask(first);
    const [call] = output;
    if (call?.type !== 'function_call') return t.fail(JSON.stringify(output));
    t.like(call, { name: 'weather', arguments: calling.call, status: 'completed' });
    const result = { type: 'function_call_output' as const, call_id: call.call_id, output: '{"sun":true}' };
    const second = { input: [{ role: 'user' as const, content: first.input }, call, result], tools };
    const answering = predicted(second);
    const answer = await ask(second);
    t.is(answer.output_text, answering.text);
    t.true(answer.output_text.includes('{"sun":true}'));
    charged.push(calling, answering);
  }
  await account.assertCharged(t, 4, sumOf(...charged));
});

test('an answer that reaches its limit is incomplete, whole and streamed', async (t) => {
  const account = await openAccount(shared.stack(), 'responses-limit');
  const asked = { input: 'repeat 20 of this', max_output_tokens: 16 };
  const expected = predicted(asked);
  for (const response of [
    await account.openai.responses.create({ model, ...asked }),
    await account.openai.responses.stream({ model, ...asked }).finalResponse(),
  ]) {
    t.like(response, {
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output_text: expected.text,
    });
    t.is(response.usage?.output_tokens, 16);
  }
  await account.assertCharged(t, 2, sumOf(expected, expected));
});

test('no backend is asked to store a response', async (t) => {
  const stack = shared.stack();
  const account = await openAccount(stack, 'responses-stored');
  const marker = 'nothing of this is kept';
  const response = await account.post('/v1/responses', {
    model,
    input: marker,
    client_metadata: { a: 'b' },
    store: null,
  });
  t.is(response.status, 200);
  const call = stack.modelServers
    .flatMap((server) => server.calls())
    .find(({ body }) => JSON.stringify(body).includes(marker));
  t.like(call?.body, { store: false, max_output_tokens: 4_096 });
  t.false(JSON.stringify(call?.body).includes('client_metadata'));
});
