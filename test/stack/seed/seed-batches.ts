import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI, { toFile } from 'openai';
import type { SeedBatch } from './seed-accounts.ts';

const withinMs = 60_000;
const over = ['completed', 'failed', 'expired', 'cancelled'];
const lineCounts = { completed: 24, failed: 12, cancelled: 200, running: 3_000 };

type Deps = {
  /** The address of the API. */
  url: string;
  /** Sign-in token of the account. */
  token: string;
  /** The addresses of the simulated model servers, without a path. */
  modelServers: readonly string[];
};

/**
 * Submits these batches for an account, and returns false if it has batches already. All but the running one have ended when it returns.
 */
export async function seedBatches(kinds: readonly SeedBatch[], { url, token, modelServers }: Deps): Promise<boolean> {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: token });
  if ((await client.batches.list({ limit: 1 })).data.length > 0) return false;
  for (const kind of kinds) {
    if (kind === 'completed') await refuseSome(modelServers);
    const id = await submit(kind, client);
    if (kind === 'running') await until(client, id, ({ status }) => status === 'in_progress');
    if (kind === 'running') continue;
    if (kind === 'cancelled') {
      await until(client, id, ({ request_counts: counts }) => (counts?.completed ?? 0) > 0);
      await client.batches.cancel(id);
    }
    await until(client, id, ({ status }) => over.includes(status));
    if (kind === 'completed') await control(modelServers, 'DELETE');
  }
  return true;
}

/** The next call of each model server is refused, so that a batch has lines that fail. */
function refuseSome(modelServers: readonly string[]): Promise<void> {
  return control(modelServers, 'PUT', {
    status: 400,
    errorMessage: 'This prompt has an image without a size.',
    times: 1,
  });
}

async function control(modelServers: readonly string[], method: 'PUT' | 'DELETE', body?: object): Promise<void> {
  const calls = modelServers.map((server) =>
    fetch(`${server}/control`, {
      method,
      ...(body && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(5_000),
    }),
  );
  await Promise.all(calls);
}

async function submit(kind: SeedBatch, client: OpenAI): Promise<string> {
  const file = await toFile(Buffer.from(linesOf(kind)), `${kind}.jsonl`);
  const { id: input_file_id } = await client.files.create({ file, purpose: 'batch' });
  const { id } = await client.batches.create({
    input_file_id,
    endpoint: '/v1/chat/completions',
    completion_window: '24h',
    metadata: { made_by: 'npm run seed' },
  });
  return id;
}

async function until(client: OpenAI, id: string, isSo: (batch: OpenAI.Batch) => boolean): Promise<void> {
  const giveUpAt = Date.now() + withinMs;
  for (;;) {
    const batch = await client.batches.retrieve(id);
    if (isSo(batch)) return;
    if (Date.now() > giveUpAt) throw new Error(`The batch ${id} is ${batch.status} after ${withinMs / 1_000} s.`);
    await sleep(200);
  }
}

function linesOf(kind: SeedBatch): string {
  const body =
    kind === 'running'
      ? chatBody('Write a story about the sea, and repeat 20 times what is good.', 200)
      : chatBody('Say hello.', 6);
  const lines = Array.from({ length: lineCounts[kind] }, (_, index) =>
    JSON.stringify({ custom_id: `line-${index + 1}`, method: 'POST', url: '/v1/chat/completions', body }),
  );
  return [...lines, ...(kind === 'failed' ? ['this is not JSON'] : [])].map((line) => `${line}\n`).join('');
}

export function chatBody(content: string, max_tokens: number, model = 'small-chat') {
  return { model, max_tokens, messages: [{ role: 'user' as const, content }] };
}
