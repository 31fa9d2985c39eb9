import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'ava';
import OpenAI, { toFile } from 'openai';
import { parse, stringify } from 'yaml';
import { type Stack, startStack } from '../stack/stack.ts';
import { openRelease } from '../support/earlier-releases.ts';
import { everyEndpoint } from '../support/every-endpoint.ts';
import { createKeyClient } from '../support/key-client.ts';

const model = 'everything';
const line = { custom_id: 'one', method: 'POST', url: '/v1/embeddings', body: { model, input: 'Hi' } };

let stack: Stack;
let older: { root: string; env: Record<string, string> };
const parts = new AsyncDisposableStack();

test.before(async () => {
  const { root } = parts.use(await openRelease('previous'));
  stack = parts.use(
    await startStack({ ingresses: 1, workers: 0, models: everyEndpoint, timeouts: { queue_ms: 2_000 } }),
  );
  older = { root, env: { PLAN_FILE: await olderPlanFile() } };
});

test.after.always(() => parts.disposeAsync());

/** The plan file without the keys that the previous release refuses. */
async function olderPlanFile(): Promise<string> {
  const plan = parse(await readFile(stack.planFile, 'utf8')) as { models: Record<string, { endpoints?: string[] }> };
  for (const each of Object.values(plan.models)) delete each.endpoints;
  const path = join(stack.directory, 'older.yaml');
  await writeFile(path, stringify(plan));
  return path;
}

test.serial(
  'a request that only workers of the previous release take is 503, charges nothing and stops nothing',
  async (t) => {
    const worker = await stack.startWorker(older.env, older.root);
    const keys = createKeyClient(stack);
    const bearer = await keys.newKey('alice');
    const body = { model, input: 'Hi' };
    const answer = await keys.send('POST', '/v1/embeddings', { bearer, body });
    t.like(answer, { status: 503, body: { code: 'SERVICE_UNAVAILABLE' } });
    t.like((await keys.send('GET', '/billing/quota', { bearer })).body, { used: 0, reserved: 0 });
    const chat = { model, messages: [{ role: 'user', content: 'Hi' }] };
    t.is((await keys.send('POST', '/v1/chat/completions', { bearer, body: chat })).status, 200);
    await worker.process.stop();
  },
);

test.serial('an ingress of the previous release shows a batch of another endpoint, and its results', async (t) => {
  const apiKey = await stack.mintKey('bob');
  const clientAt = (url: string) => new OpenAI({ apiKey, baseURL: `${url}/v1`, maxRetries: 0 });
  const { url } = stack.ingresses[0] ?? { url: '' };
  const client = clientAt(url);
  const worker = await stack.startWorker();
  const file = await toFile(Buffer.from(JSON.stringify(line)), 'in.jsonl');
  const { id: input_file_id } = await client.files.create({ purpose: 'batch', file });
  const made = await client.batches.create({ input_file_id, endpoint: '/v1/embeddings', completion_window: '24h' });
  t.is(made.endpoint, '/v1/embeddings');
  let batch = made;
  while (batch.status !== 'completed') batch = await client.batches.retrieve(made.id);
  const earlier = clientAt((await stack.startIngress(older.env, older.root)).url);
  t.like(await earlier.batches.retrieve(made.id), { status: 'completed', output_file_id: batch.output_file_id });
  t.deepEqual(
    (await earlier.batches.list()).data.map(({ id }) => id),
    [made.id],
  );
  const output = await (await earlier.files.content(batch.output_file_id ?? '')).text();
  t.like(JSON.parse(output), { custom_id: 'one', response: { status_code: 200, body: { object: 'list' } } });
  await worker.process.stop();
});
