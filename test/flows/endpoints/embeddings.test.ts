import test from 'ava';
import { embeddingFor, embeddingTokensOf } from '../../stack/model-server.ts';
import { openAccount, sumOf } from '../../support/endpoints/open-account.ts';
import { everyEndpoint } from '../../support/every-endpoint.ts';
import { openSharedStack } from '../../support/shared-stack.ts';

const shared = openSharedStack(test, { models: everyEndpoint });
const model = 'everything';
const charged = (input: Parameters<typeof embeddingTokensOf>[0]) => ({
  promptTokens: embeddingTokensOf(input),
  completionTokens: 0,
});

test('the SDK gets the vectors of every input in either encoding, and the prompt is charged exactly', async (t) => {
  const account = await openAccount(shared.stack(), 'embeddings-forms');
  const cases = [
    { input: 'Grüße aus 東京', vectors: [embeddingFor('Grüße aus 東京')] },
    { input: ['a', 'b b'], vectors: [embeddingFor('a'), embeddingFor('b b')] },
    { input: [5, 6, 7], vectors: [embeddingFor([5, 6, 7])] },
    { input: [[5], [6, 7]], vectors: [embeddingFor([5]), embeddingFor([6, 7])] },
  ];
  for (const { input, vectors } of cases) {
    // Without an encoding, the SDK asks for base64.
    for (const encoding of [{}, { encoding_format: 'float' }] as const) {
      const answer = await account.openai.embeddings.create({ model, input, ...encoding });
      t.deepEqual(
        answer.data.map(({ embedding }) => embedding),
        vectors,
      );
      t.deepEqual(
        answer.data.map(({ index, object }) => [index, object]),
        vectors.map((_, index) => [index, 'embedding']),
      );
      t.like(answer, { object: 'list', model });
      const tokens = embeddingTokensOf(input);
      t.deepEqual(answer.usage, { prompt_tokens: tokens, total_tokens: tokens });
    }
  }
  await account.assertCharged(t, 8, sumOf(...cases.flatMap(({ input }) => [charged(input), charged(input)])));
});

test('the dimensions of the client reach the backend, also below the usual base path', async (t) => {
  const account = await openAccount(shared.stack(), 'embeddings-dimensions');
  for (const dimensions of [1, 3, 1_536]) {
    const { data } = await account.plain.embeddings.create({ model, input: 'Hi', dimensions });
    t.deepEqual(data[0]?.embedding, embeddingFor('Hi', dimensions));
  }
  await account.assertCharged(t, 3, { promptTokens: 3 * embeddingTokensOf('Hi'), completionTokens: 0 });
});

test('base64 is passed on as the backend wrote it', async (t) => {
  const account = await openAccount(shared.stack(), 'embeddings-base64');
  const body = { model, input: 'Hi', encoding_format: 'base64' };
  const { data } = (await (await account.post('/v1/embeddings', body)).json()) as { data: { embedding: string }[] }; // the service's own answer
  const bytes = Buffer.from(data[0]?.embedding ?? '', 'base64');
  t.deepEqual(
    embeddingFor('Hi').map((_, index) => bytes.readFloatLE(index * 4)),
    embeddingFor('Hi'),
  );
});
