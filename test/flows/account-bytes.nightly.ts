import test from 'ava';
import { startStack } from '../stack/stack.ts';
import { openBatchClient } from '../support/batch-client.ts';
import { createKeyClient } from '../support/key-client.ts';

const accountBytesMax = 2_000_000;
const lines = 60;
const parts = new AsyncDisposableStack();
let stack: Awaited<ReturnType<typeof startStack>>;

test.before(async () => {
  const models = { embedder: { tier: 'guest', pool: 'default', backends: ['onprem-a'], endpoints: ['embeddings'] } };
  stack = parts.use(await startStack({ workers: 2, models, batch: { account_bytes_max: accountBytesMax } }));
});
test.after.always(() => parts.disposeAsync());

/** A short line with a long answer. */
const embeddings = (id: string) =>
  JSON.stringify({
    custom_id: id,
    method: 'POST',
    url: '/v1/embeddings',
    body: { model: 'embedder', input: ['a', 'b', 'c'], dimensions: 16_000, encoding_format: 'base64' },
  });

test('answers of batches have no more bytes than their account may hold, and those beyond cost nothing', async (t) => {
  const { client, upload, ended, lines: linesOf, apiKey } = await openBatchClient(stack, 'hoarder');
  const file = await upload(Array.from({ length: lines }, (_, index) => embeddings(`line-${index}`)).join('\n'));
  const create = () =>
    client.batches.create({ input_file_id: file, endpoint: '/v1/embeddings', completion_window: '24h' });
  const batches = [await create(), await create()];
  const results = [];
  for (const { id } of batches) results.push(...(await linesOf(await ended(id))));
  t.is(results.length, 2 * lines, 'every line ends');
  const kept = results.filter(({ response }) => response !== null);
  const refused = results.filter(({ error }) => error?.code === 'account_bytes_limit');
  t.is(kept.length + refused.length, 2 * lines);
  t.true(kept.length >= 4, String(kept.length));

  const { data } = await client.files.list();
  const bytes = data.reduce((sum, each) => sum + each.bytes, 0);
  t.true(bytes <= accountBytesMax, `${bytes} bytes`);
  t.true(bytes >= accountBytesMax / 2, `${bytes} bytes`);
  const { body } = await createKeyClient(stack).send('GET', '/billing/quota', { bearer: apiKey });
  const { usage } = results.find(({ response }) => response !== null)?.response?.body ?? {};
  t.is(body.used, kept.length * Number(usage?.total_tokens), 'only what was kept is charged');

  for (const { id } of data) if (id !== file) await client.files.delete(id);
  const again = await ended((await create()).id);
  t.true(Number(again.request_counts?.completed) >= 4, 'there is room again');
});
