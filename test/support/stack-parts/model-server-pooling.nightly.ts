import test from 'ava';
import OpenAI from 'openai';
import {
  embeddingFor,
  embeddingTokensOf,
  pieces,
  relevanceOf,
  rerankTokensOf,
  startModelServer,
} from '../../stack/model-server.ts';

const model = 'small-embedding';
const query = 'Which city?';
const documents = ['Tokyo', { text: 'A river, 東京' }, 'Berlin', 'Roma'];

function clientOf(server: { url: string }): OpenAI {
  return new OpenAI({ baseURL: server.url, apiKey: 'any', maxRetries: 0 });
}

function rerank(server: { url: string }, body: object): Promise<Response> {
  return fetch(`${server.url}/rerank`, { method: 'POST', body: JSON.stringify({ model, query, documents, ...body }) });
}

test('embeds each input in a vector of length 1, the same for the same input', (t) => {
  t.deepEqual(embeddingFor('a'), embeddingFor('a'));
  t.notDeepEqual(embeddingFor('a'), embeddingFor('b'));
  t.notDeepEqual(embeddingFor('1'), embeddingFor([1]));
  t.is(embeddingFor('a').length, 8);
  t.is(embeddingFor('a', 1_024).length, 1_024);
  t.true(Math.abs(Math.hypot(...embeddingFor('a', 100)) - 1) < 1e-6);
});

test('gives the official SDK the same embeddings as numbers and in base64', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const inputs = [['Grüße'], ['one', 'two three'], [1, 2, 3], [[1, 2], [3]]] as const;
  for (const input of inputs) {
    const [list, expected] = [[...input], expectedFor(input)];
    for (const format of [{}, { encoding_format: 'float' }, { encoding_format: 'base64' }] as const) {
      const request = { model, input: list as string[] | number[], dimensions: 5, ...format };
      const { data, usage } = await clientOf(server).embeddings.create(request);
      const vectors = data.map(({ embedding }) => (typeof embedding === 'string' ? decoded(embedding) : embedding));
      t.deepEqual(vectors, expected);
      t.deepEqual(
        data.map(({ index }) => index),
        expected.map((_, index) => index),
      );
      const tokens = embeddingTokensOf(request.input);
      t.deepEqual(usage, { prompt_tokens: tokens, total_tokens: tokens });
      t.like(server.calls().at(-1), {
        path: '/v1/embeddings',
        promptTokens: tokens,
        completionTokens: 0,
        chunksSent: 1,
      });
    }
  }
  t.is(embeddingTokensOf([[1, 2], [3]]), 3);
  t.is(embeddingTokensOf(['one', 'two three']), 4);
});

function expectedFor(input: readonly (string | number | readonly number[])[]): number[][] {
  const numbers = input.filter((one) => typeof one === 'number');
  if (numbers.length > 0) return [embeddingFor(numbers, 5)];
  return input.filter((one) => typeof one !== 'number').map((one) => embeddingFor(one, 5));
}

function decoded(base64: string): number[] {
  const bytes = Buffer.from(base64, 'base64');
  return Array.from({ length: bytes.length / 4 }, (_, index) => bytes.readFloatLE(index * 4));
}

test('embeddings are never streamed, and an invalid request for them is refused', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const whole = await clientOf(server).post('/embeddings', { body: { model, input: 'Hi', stream: true } });
  t.like(whole, { object: 'list', model, data: [{ object: 'embedding', index: 0 }] });
  t.false(server.calls()[0]?.stream);
  for (const bad of [{}, { input: [] }, { input: ['a', 1] }, { input: 'a', dimensions: 0 }]) {
    const answer = clientOf(server).post('/embeddings', { body: { model, ...bad } });
    await t.throwsAsync(answer, { instanceOf: OpenAI.BadRequestError }, JSON.stringify(bad));
  }
});

test('ranks documents by their relevance, and counts the query once for each', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const texts = ['Tokyo', 'A river, 東京', 'Berlin', 'Roma'];
  const expected = texts
    .map((text, index) => ({ index, document: { text }, relevance_score: relevanceOf(query, text) }))
    .sort((one, other) => other.relevance_score - one.relevance_score);
  const tokens = texts.reduce((sum, text) => sum + pieces(query).length + pieces(text).length, 0);
  t.is(rerankTokensOf({ query, documents }), tokens);
  const all = (await (await rerank(server, {})).json()) as object;
  t.like(all, { model, usage: { total_tokens: tokens }, results: expected });
  t.like(server.calls()[0], { path: '/v1/rerank', promptTokens: tokens, completionTokens: 0, state: 'completed' });

  const top = (await (await rerank(server, { top_n: 2, return_documents: false })).json()) as { results: object[] };
  t.deepEqual(
    top.results,
    expected.slice(0, 2).map(({ index, relevance_score }) => ({ index, relevance_score })),
  );
  t.is((await rerank(server, { documents: [] })).status, 400);
  t.is((await rerank(server, { query: 5 })).status, 400);
});
