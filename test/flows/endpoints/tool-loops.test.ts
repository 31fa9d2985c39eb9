import type Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import test, { type ExecutionContext } from 'ava';
import type OpenAI from 'openai';
import { type Account, openAccount } from '../../support/endpoints/open-account.ts';
import { everyEndpoint } from '../../support/every-endpoint.ts';
import { openSharedStack } from '../../support/shared-stack.ts';

const shared = openSharedStack(test, {
  models: { ...everyEndpoint, lenient: { ...everyEndpoint.everything, unknown_fields: 'drop' } },
});
const model = 'everything';
const question = { role: 'user' as const, content: 'Do it.' };
const properties = { command: { type: 'string' } } as const;
const command = { type: 'object' as const, properties, required: ['command'] };
/** A shell, and another tool before it. */
const tools = [
  { name: 'lookup', schema: { type: 'object' as const, properties: {} } },
  { name: 'Bash', schema: command },
];
const steps = [1, 2].map((step) => `echo "step $((${step - 1} + 1)) of 2"`);

/** Calls the model until it answers with text. `ask` gets the conversation so far and adds to it. Returns the calls and the text. */
async function loop(
  ask: () => Promise<{ called: string[]; text: string }>,
): Promise<{ called: string[]; text: string }> {
  const called: string[] = [];
  for (;;) {
    const turn = await ask();
    called.push(...turn.called);
    if (turn.called.length === 0) return { called, text: turn.text };
  }
}

function chatLoop({ openai }: Account, stream: boolean) {
  const messages: OpenAI.ChatCompletionMessageParam[] = [question];
  return loop(async () => {
    const offered = tools.map(({ name, schema }) => ({
      type: 'function' as const,
      function: { name, parameters: schema },
    }));
    const asked = { model, messages, tools: offered };
    const { choices } = stream
      ? await openai.chat.completions.stream(asked).finalChatCompletion()
      : await openai.chat.completions.create(asked);
    const [choice] = choices;
    const calls = choice?.message.tool_calls ?? [];
    if (choice) messages.push(choice.message);
    messages.push(...calls.map(({ id }) => ({ role: 'tool' as const, tool_call_id: id, content: 'done' })));
    const called = calls.flatMap((call) =>
      call.type === 'function' ? [JSON.parse(call.function.arguments).command] : [],
    );
    return { called, text: choice?.message.content ?? '' };
  });
}

function responsesLoop({ openai }: Account, stream: boolean, offered: OpenAI.Responses.Tool[]) {
  const input: OpenAI.Responses.ResponseInputItem[] = [question];
  return loop(async () => {
    const asked = { model, input, tools: offered };
    const { output, output_text: text } = stream
      ? await openai.responses.stream(asked).finalResponse()
      : await openai.responses.create(asked);
    input.push(...(output as OpenAI.Responses.ResponseInputItem[])); // items of an answer can be sent again
    const called = output.flatMap((item) => {
      if (item.type === 'custom_tool_call') {
        input.push({ type: 'custom_tool_call_output', call_id: item.call_id, output: 'done' });
        return [item.input];
      }
      if (item.type !== 'function_call') return [];
      input.push({ type: 'function_call_output', call_id: item.call_id, output: 'done' });
      return [JSON.parse(item.arguments).command];
    });
    return { called, text };
  });
}

function messagesLoop({ anthropic }: Account, stream: boolean) {
  const messages: Anthropic.MessageParam[] = [question];
  return loop(async () => {
    const offered = tools.map(({ name, schema }) => ({ name, input_schema: schema }));
    const asked = { model, messages, max_tokens: 1_000, tools: offered };
    const { content } = stream
      ? await anthropic.messages.stream(asked).finalMessage()
      : await anthropic.messages.create(asked);
    const calls = content.filter((block) => block.type === 'tool_use');
    messages.push({ role: 'assistant', content });
    const results = calls.map(({ id }) => ({ type: 'tool_result' as const, tool_use_id: id, content: 'done' }));
    messages.push({ role: 'user', content: results });
    const called = calls.map(({ input }) => (input as { command: string }).command); // as the schema says
    return { called, text: content.map((block) => (block.type === 'text' ? block.text : '')).join('') };
  });
}

const functions = tools.map(({ name, schema }) => ({
  type: 'function' as const,
  name,
  parameters: schema,
  strict: false,
}));
const custom = [{ type: 'web_search' as const }, { type: 'custom' as const, name: 'exec' }];

for (const stream of [false, true]) {
  test(`a loop of two tool calls runs to its end in each API, ${stream ? 'streamed' : 'whole'}`, async (t) => {
    const account = await openAccount(shared.stack(), `tool-loops-${stream}`);
    for (const [name, run] of Object.entries({
      chat: () => chatLoop(account, stream),
      functions: () => responsesLoop(account, stream, functions),
      custom: () => responsesLoop(account, stream, custom),
      messages: () => messagesLoop(account, stream),
    })) {
      const { called, text } = await run();
      t.deepEqual(called, steps, name);
      t.regex(text, /^(The tool says: done|You said: Do it\.)/, name);
    }
  });
}

test("Anthropic's tool runner continues without a thread, and ends its loop", async (t) => {
  const statuses: number[] = [];
  const counted: typeof fetch = async (...asked) => {
    const response = await fetch(...asked);
    statuses.push(response.status);
    return response;
  };
  const { anthropic } = await openAccount(shared.stack(), 'tool-runner', { fetch: counted });
  for (const stream of [false, true]) {
    statuses.length = 0;
    const ran: string[] = [];
    const run = ({ command: given }: Record<string, unknown>) => `ran ${ran.push(String(given))}`;
    const bash = betaTool({ name: 'Bash', description: 'Runs a command', inputSchema: command, run });
    const asked = { model, max_tokens: 1_000, messages: [question], tools: [bash] };
    const last = stream
      ? await anthropic.beta.messages.toolRunner({ ...asked, stream: true }).runUntilDone()
      : await anthropic.beta.messages.toolRunner(asked).runUntilDone();
    t.deepEqual(ran, steps);
    t.deepEqual(statuses, [400, 200, 200, 200], 'the first asks for a thread');
    t.like(last, { stop_reason: 'end_turn' });
    t.regex(JSON.stringify(last.content), /The tool says: ran 2\./);
  }
});

test('a thread is refused in the words of tool runners, also where unknown fields are dropped', async (t) => {
  const { post } = await openAccount(shared.stack(), 'threads');
  for (const thread of [{ type: 'create' }, { type: 'continue', previous_message_id: 'msg_1' }]) {
    for (const name of [model, 'lenient']) {
      const response = await post('/v1/messages', { model: name, max_tokens: 5, messages: [question], thread });
      t.is(response.status, 400);
      t.like(await response.json(), {
        type: 'error',
        error: {
          type: 'invalid_request_error',
          details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] },
        },
      });
    }
  }
});

test('what was dropped is named in a header, which is short and has no strange characters', async (t) => {
  const { post } = await openAccount(shared.stack(), 'dropped-names');
  const droppedOf = async (path: string, body: object) => {
    const response = await post(path, body);
    const text = await response.text();
    t.is(response.status, 200, text);
    return response.headers.get('x-svc-dropped');
  };
  const chat = { messages: [question] };
  t.is(await droppedOf('/v1/chat/completions', { model, ...chat }), null);
  t.is(
    await droppedOf('/v1/chat/completions', { model: 'lenient', ...chat, x_vendor: 1, tool_chioce: 1 }),
    'x_vendor, tool_chioce',
  );
  const strange = { 'a\r\nset-cookie: x': 1, 'b, c': 1, é東: 1, ['long'.repeat(50)]: 1, '': 1 };
  const names = await droppedOf('/v1/chat/completions', { model: 'lenient', ...chat, ...strange });
  t.is(names, `a??set-cookie:?x, b??c, ??, ${'long'.repeat(16)}..., ?`);
  const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`x_${index}`, 1]));
  const few = (await droppedOf('/v1/chat/completions', { model: 'lenient', ...chat, ...many })) ?? '';
  t.regex(few, /^x_0, x_1, .*, x_19, and 4980 more$/);
  await droppedFromResponses(t, droppedOf);
});

async function droppedFromResponses(
  t: ExecutionContext,
  droppedOf: (path: string, body: object) => Promise<string | null>,
) {
  const hosted = { input: 'Hi', tools: [{ type: 'web_search' }, { type: 'image_generation' }], tool_choice: 'auto' };
  t.is(await droppedOf('/v1/responses', { model, ...hosted }), 'tools.web_search, tools.image_generation');
  t.is(
    await droppedOf('/v1/responses', { model, ...hosted, stream: true }),
    'tools.web_search, tools.image_generation',
  );
  const served = { max_tokens: 5, messages: [question], tools: [{ type: 'web_search_20250305', name: 'web_search' }] };
  t.is(await droppedOf('/v1/messages', { model, ...served }), 'tools.web_search_20250305');
}

test('half of a surrogate pair reaches no backend', async (t) => {
  const { post } = await openAccount(shared.stack(), 'half-characters');
  const marker = 'half characters';
  const sent = `{"model":"${model}","messages":[{"role":"user","content":"${marker} \\ud83d"}],"metadata":{"\\udc00":"x"}}`;
  t.is((await post('/v1/chat/completions', sent)).status, 200);
  const calls = shared.stack().modelServers.flatMap((server) => server.calls());
  const call = calls.find(({ body }) => JSON.stringify(body).includes(marker));
  t.like(call?.body, { messages: [{ role: 'user', content: `${marker} \ufffd` }], metadata: { '\ufffd': 'x' } });
});
