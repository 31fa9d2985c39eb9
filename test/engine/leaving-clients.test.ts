import test, { type ExecutionContext } from 'ava';
import { forms } from './ask.ts';
import { openEngineTests, until } from './open-engine-tests.ts';

/** The engine would need a minute for it. */
const tokens = 16_000;
const { engineTestAlone, enginesOf, account } = openEngineTests(test, {
  slow: {
    ...{ model: 'slow', slots: 2, contextTokens: 32_768, outputTokensMax: tokens },
    endpoints: forms,
  },
});

const messages = [{ role: 'user', content: 'Hello' }];
const calls = {
  chat: { path: '/v1/chat/completions', body: { messages, max_tokens: tokens } },
  completion: { path: '/v1/completions', body: { prompt: 'Hello', max_tokens: tokens } },
  response: { path: '/v1/responses', body: { input: 'Hello', max_output_tokens: tokens } },
  message: { path: '/v1/messages', body: { messages, max_tokens: tokens } },
} as const;

type Asked = { name: keyof typeof calls; stream: boolean };

/** A client leaves an answer that the engine works on. Its slot must be free soon, and long before the answer would have ended. */
async function requireIdle(t: ExecutionContext, { name, stream }: Asked): Promise<void> {
  const { key, url } = await account();
  const [engine] = enginesOf('slow');
  if (engine === undefined) throw new Error('there is no engine');
  const { path, body } = calls[name];
  const client = new AbortController();
  const answer = fetch(`${url}${path}`, {
    ...{ method: 'POST', signal: client.signal },
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'slow', stream, ...body }),
  });
  const left = t.throwsAsync(answer.then((response) => response.text()));
  await until('the engine works', async () => (await engine.busySlots()).length === 1);
  if (stream) await answer;
  client.abort();
  await left;
  const leftAt = performance.now();
  try {
    await until('the engine is idle', async () => (await engine.busySlots()).length === 0, 5_000);
    t.log(`idle after ${Math.round(performance.now() - leftAt)} ms`);
  } catch (error) {
    await engine.restart(); // for the next test
    throw error;
  }
}

for (const name of ['chat', 'completion', 'response', 'message'] as const) {
  engineTestAlone(`the engine stops when a client leaves a streamed ${name}`, (t) =>
    requireIdle(t, { name, stream: true }),
  );
}

for (const name of ['chat', 'completion', 'response', 'message'] as const) {
  engineTestAlone(`the engine stops when a client leaves a whole ${name}`, (t) =>
    requireIdle(t, { name, stream: false }),
  );
}

engineTestAlone('more clients than slots: none is refused, and none waits inside the engine', async (t) => {
  const { openai } = await account();
  const [engine] = enginesOf('slow');
  const limit = 100;
  let waited = 0;
  let isAsked = true;
  async function watch(): Promise<void> {
    while (isAsked) waited = Math.max(waited, (await engine?.count('requests_deferred')) ?? 0);
  }
  const watching = watch();
  const asked = { model: 'slow', messages: [{ role: 'user' as const, content: 'Hello' }], max_tokens: limit };
  const streams = Array.from({ length: 6 }, () =>
    openai.chat.completions.stream({ ...asked, stream_options: { include_usage: true } }).finalChatCompletion(),
  );
  const answers = await Promise.all(streams);
  isAsked = false;
  await watching;
  for (const { choices, usage } of answers) {
    t.is(choices[0]?.finish_reason, 'length');
    t.is(usage?.completion_tokens, limit);
  }
  t.is(waited, 0);
});
