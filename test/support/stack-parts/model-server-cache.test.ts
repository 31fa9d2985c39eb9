import test from 'ava';
import { z } from 'zod';
import { answerFor, type ModelServer, pieces, promptTokensOf, startModelServer } from '../../stack/model-server.ts';

const model = 'small-chat';
const words = (count: number, word: string) => Array.from({ length: count }, (_, at) => `${word}${at % 10}`).join(' ');
const system = { role: 'system', content: words(100, 'one') };
const user = { role: 'user', content: words(50, 'two') };
const messages = [system, user];
const promptTokens = promptTokensOf(messages);
const wholeBlocks = (tokens: number) => 16 * Math.floor((tokens - 1) / 16);
const cached = wholeBlocks(promptTokens);
const prefixCache = { tokensMax: 100_000, uncachedTokensPerSecond: 1_000_000 };

async function ask({ url }: Pick<ModelServer, 'url'>, path: string, body: object): Promise<unknown> {
  const reply = await fetch(`${url}${path}`, { method: 'POST', body: JSON.stringify({ model, ...body }) });
  return reply.json();
}

const chatReply = z.object({
  usage: z.object({
    prompt_tokens: z.number(),
    prompt_tokens_details: z.object({ cached_tokens: z.number() }).optional(),
  }),
});
const cachedIn = (reply: unknown) => chatReply.parse(reply).usage.prompt_tokens_details?.cached_tokens;
const askChat = async (server: Pick<ModelServer, 'url'>, chat: readonly object[]) =>
  cachedIn(await ask(server, '/chat/completions', { messages: chat }));

test('each endpoint that generates reports the cached tokens in its own way, and its calls record them', async (t) => {
  await using server = await startModelServer({ name: 'cached', prefixCache });
  t.is(await askChat(server, messages), 0);
  t.is(await askChat(server, messages), cached);

  const [{ content: instructions }, { content: input }] = [system, user];
  const response = await ask(server, '/responses', { instructions, input });
  t.like(response, { usage: { input_tokens: promptTokens } });
  t.like(response, { usage: { input_tokens_details: { cached_tokens: cached } } });
  const message = await ask(server, '/messages', { system: instructions, messages: [user], max_tokens: 500 });
  t.like(message, { usage: { input_tokens: promptTokens - cached, cache_read_input_tokens: cached } });

  const prompt = words(100, 'six');
  t.is(cachedIn(await ask(server, '/completions', { prompt })), undefined);
  t.is(cachedIn(await ask(server, '/completions', { prompt })), wholeBlocks(pieces(prompt).length));
  t.deepEqual(
    server.calls().map(({ cachedTokens }) => cachedTokens),
    [0, cached, cached, cached, 0, wholeBlocks(pieces(prompt).length)],
  );
});

test('streams report the same', async (t) => {
  await using server = await startModelServer({ name: 'cached', prefixCache });
  const streamed = { model, messages, stream: true, stream_options: { include_usage: true } };
  for (const expected of [0, cached]) {
    const reply = await fetch(`${server.url}/chat/completions`, { method: 'POST', body: JSON.stringify(streamed) });
    const [, last = ''] = /data: (\{.*"usage".*\})/.exec(await reply.text()) ?? [];
    t.is(cachedIn(JSON.parse(last)), expected);
  }
});

test('the generated answer counts for the next turn, and another role or beginning does not', async (t) => {
  await using server = await startModelServer({ name: 'cached', prefixCache });
  await askChat(server, messages);
  const answer = answerFor(messages);
  const next = [...messages, { role: 'assistant', content: answer }, { role: 'user', content: 'And now?' }];
  const kept = 16 * Math.floor((promptTokens + pieces(answer).length) / 16);
  t.true(kept > cached);
  t.is(await askChat(server, next), kept);
  t.is(await askChat(server, [{ ...system, role: 'user' }, user]), 0);
  t.is(await askChat(server, [user, system]), 0);
});

test('the first token waits for the tokens that are not cached', async (t) => {
  const uncachedTokensPerSecond = 1_000;
  await using server = await startModelServer({
    name: 'cached',
    firstTokenMs: 10,
    prefixCache: { ...prefixCache, uncachedTokensPerSecond },
  });
  const timeOf = async () => {
    const startedAt = performance.now();
    await askChat(server, messages);
    return performance.now() - startedAt;
  };
  const [first, second] = [await timeOf(), await timeOf()];
  t.true(first >= promptTokens + 9, `${first} ms`);
  t.true(second >= promptTokens - cached + 9, `${second} ms`);
  t.true(second < first - cached / 2, `${second} ms and ${first} ms`);
});

test('without a cache nothing is cached and nothing waits', async (t) => {
  await using server = await startModelServer({ name: 'plain' });
  for (let turn = 0; turn < 2; turn += 1) t.is(await askChat(server, messages), 0);
  t.is(server.calls()[1]?.cachedTokens, 0);
});

test('an aborted call leaves nothing in the cache', async (t) => {
  await using server = await startModelServer({ name: 'cached', prefixCache });
  server.fail({ cutAfterChunks: 1 });
  await t.throwsAsync(askChat(server, messages));
  server.heal();
  t.is(await askChat(server, messages), 0);
});

test('calls beyond the slots wait in the server, first come, first served, and one that leaves needs no slot', async (t) => {
  await using server = await startModelServer({ name: 'slots', slots: 1 });
  server.fail({ untilHealed: true });
  const ended: number[] = [];
  const leaving = new AbortController();
  const body = JSON.stringify({ model, messages });
  const askedAt = async (place: number, signal?: AbortSignal) => {
    const options = { method: 'POST', body, ...(signal && { signal }) };
    const asked = fetch(`${server.url}/chat/completions`, options).then(async (reply) => {
      await reply.text();
      ended.push(place);
    });
    asked.catch(() => {}); // awaited below
    await server.waitForCall(({ id }) => id === place);
    return { asked };
  };
  const first = await askedAt(1);
  const second = await askedAt(2, leaving.signal);
  const third = await askedAt(3);
  const fourth = await askedAt(4);
  leaving.abort();
  await t.throwsAsync(second.asked);
  await server.waitForCall(({ id, state }) => id === 2 && state === 'aborted');
  t.deepEqual(ended, []);
  server.heal();
  await Promise.all([first.asked, third.asked, fourth.asked]);
  t.deepEqual(ended, [1, 3, 4]);
});
