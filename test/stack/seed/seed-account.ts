import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI, { toFile } from 'openai';
import { z } from 'zod';
import type { Store } from '../../../shared/store/records/store.ts';
import { type PastModel, pastUsage } from './past-usage.ts';

export type SeedAccount = {
  name: string;
  plan: 'free' | 'pro';
  models: readonly PastModel[];
  /** For past months, on a working day. */
  requestsPerDay: number;
  /** For this month, sent now. */
  requestsNow: number;
  /** Whether its first key is rotated, so that the list of its keys has a history. */
  rotates: boolean;
  batches: readonly SeedBatch[];
};

/** A batch that ends as `completed`, one that ends as `failed` because of a line that is not JSON, and one that is cancelled. */
export type SeedBatch = 'completed' | 'failed' | 'cancelled';

type Deps = {
  url: string;
  store: Pick<Store, 'usage'>;
  tokenOf: (account: string, admin?: boolean) => Promise<string>;
  pastMonths: readonly string[];
  print: (line: string) => void;
};

const batchWithinMs = 120_000;
const over = ['completed', 'failed', 'expired', 'cancelled'];
const minted = z.object({ key: z.string() });
const listed = z.object({ data: z.array(z.object({ id: z.string(), plan: z.string() })) });

/** Seeds one account. Data of an earlier run is not changed. Throws if the service rejects a request. */
export function createSeedAccount({ url, store, tokenOf, pastMonths, print }: Deps) {
  async function send(method: string, path: string, bearer: string, body?: object): Promise<unknown> {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} was refused: ${response.status} ${text}`);
    return JSON.parse(text);
  }

  /** The new full key, or undefined if the account already has a key. */
  async function openAccount({ name, plan, rotates }: SeedAccount, token: string): Promise<string | undefined> {
    if (listed.parse(await send('GET', '/v1/keys/developer', token)).data.length > 0) return undefined;
    const { key } = minted.parse(await send('POST', '/v1/keys/developer', token, {}));
    const account = encodeURIComponent(`user:${name}`);
    await send('PATCH', `/admin/accounts/${account}`, await tokenOf('olga', true), { plan });
    return rotates ? minted.parse(await send('POST', '/v1/keys/developer/rotate', token, { key })).key : key;
  }

  async function recordPast({ name, models, requestsPerDay }: SeedAccount, token: string): Promise<number> {
    const [newest] = listed.parse(await send('GET', '/v1/keys/developer', token)).data;
    if (newest === undefined) throw new Error(`${name} has no key`);
    const account = `user:${name}`;
    let count = 0;
    for (const month of pastMonths) {
      // A month that was counted is in Redis as well: adding usage to the store only would be drift.
      if ((await store.usage.findUsageSum(account, month)) !== undefined) continue;
      const records = pastUsage({ account, keyId: newest.id, plan: newest.plan, models, requestsPerDay }, month);
      await store.usage.recordUsage(records);
      count += records.length;
    }
    return count;
  }

  async function sendRequests({ models, requestsNow }: SeedAccount, key: string): Promise<void> {
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key });
    const requests = Array.from({ length: requestsNow }, (_, index) => models[index % models.length]?.model ?? '');
    await Promise.all(requests.map((model) => client.chat.completions.create(chatBody(model))));
  }

  async function submitBatch(kind: SeedBatch, client: OpenAI): Promise<void> {
    const file = await toFile(Buffer.from(linesOf(kind)), `${kind}.jsonl`);
    const { id: input_file_id } = await client.files.create({ file, purpose: 'batch' });
    const { id } = await client.batches.create({
      input_file_id,
      endpoint: '/v1/chat/completions',
      completion_window: '24h',
      metadata: { made_by: 'npm run seed' },
    });
    if (kind === 'cancelled') await client.batches.cancel(id);
    const giveUpAt = Date.now() + batchWithinMs;
    for (;;) {
      const { status } = await client.batches.retrieve(id);
      if (over.includes(status)) return;
      if (Date.now() > giveUpAt) throw new Error(`The batch ${id} is ${status} after ${batchWithinMs / 1_000} s.`);
      await sleep(200);
    }
  }

  return async function seedAccount(account: SeedAccount): Promise<void> {
    const { name } = account;
    const token = await tokenOf(name);
    const key = await openAccount(account, token);
    print(`${name}: ${key === undefined ? 'has a key already' : `a new key, plan ${account.plan}`}`);
    print(`${name}: ${await recordPast(account, token)} requests recorded in ${pastMonths.join(' and ')}`);
    if (key !== undefined) {
      await sendRequests(account, key);
      print(`${name}: ${account.requestsNow} requests sent now`);
    }
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: token });
    if ((await client.batches.list({ limit: 1 })).data.length > 0) return print(`${name}: has batches already`);
    for (const kind of account.batches) await submitBatch(kind, client);
    if (account.batches.length > 0) print(`${name}: ${account.batches.length} batches (${account.batches.join(', ')})`);
  };
}

function chatBody(model: string) {
  return { model, max_tokens: 40, messages: [{ role: 'user' as const, content: 'Say something about the sea.' }] };
}

function linesOf(kind: SeedBatch): string {
  const lines = Array.from({ length: kind === 'cancelled' ? 200 : 12 }, (_, index) =>
    JSON.stringify({
      custom_id: `line-${index + 1}`,
      method: 'POST',
      url: '/v1/chat/completions',
      body: chatBody('small-chat'),
    }),
  );
  return [...lines, ...(kind === 'failed' ? ['this is not JSON'] : [])].map((line) => `${line}\n`).join('');
}
