import test from 'ava';
import { relevanceOf, rerankTokensOf } from '../../stack/model-server.ts';
import { everyEndpoint } from '../../support/every-endpoint.ts';
import { createKeyClient } from '../../support/key-client.ts';
import { openSharedStack } from '../../support/shared-stack.ts';

const shared = openSharedStack(test, { models: everyEndpoint });
const query = 'Where is Bonn?';
const documents = ['Bonn is on the Rhine.', { text: 'Cats sleep.' }, '東京'];

test('documents are sorted by relevance, and the tokens that the model read are charged', async (t) => {
  const client = createKeyClient(shared.stack());
  const bearer = await client.newKey('rerank');
  const body = { model: 'everything', query, documents, top_n: 2 };
  const answer = await client.send('POST', '/v1/rerank', { bearer, body });
  t.is(answer.status, 200);
  const scored = documents.map((document, index) => {
    const text = typeof document === 'string' ? document : document.text;
    return { index, document: { text }, relevance_score: relevanceOf(query, text) };
  });
  const results = scored.toSorted((one, other) => other.relevance_score - one.relevance_score).slice(0, 2);
  const tokens = rerankTokensOf({ query, documents });
  t.like(answer.body, { model: 'everything', results, usage: { total_tokens: tokens } });
  t.like((await client.send('GET', '/billing/quota', { bearer })).body, { used: tokens, reserved: 0 });
});

test('a model that does not offer it is named', async (t) => {
  const client = createKeyClient(shared.stack());
  const bearer = await client.newKey('rerank-refused');
  const answer = await client.send('POST', '/v1/rerank', { bearer, body: { model: 'small-chat', query, documents } });
  t.like(answer, { status: 400, body: { code: 'VALIDATION_ERROR' } });
  t.regex(String(answer.body.error), /^model: "small-chat" does not offer rerank .*; it offers chat$/);
});
