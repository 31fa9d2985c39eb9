import OpenAI from 'openai';
import { z } from 'zod';
import type { Seed } from '../../../shared/limits/seed.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import type { UsageRecord } from '../../../shared/store/usage/usage-record.ts';
import { type PastCaller, pastRefusals, pastUsage } from './past-usage.ts';
import type { SeedAccount, SeedKey } from './seed-accounts.ts';
import { chatBody, seedBatches } from './seed-batches.ts';

/** An account with fewer requests is never refused. */
const busyRequestsPerDay = 40;

type Deps = {
  url: string;
  store: Pick<Store, 'usage'>;
  /** Corrects what Redis counts of a month. */
  recount: Seed;
  tokenOf: (account: string, admin?: boolean) => Promise<string>;
  /** The tokens of a month that a plan has; undefined if it has no limit. */
  allowanceOf: (plan: string) => number | undefined;
  modelServers: readonly string[];
  /** Milliseconds since 1970. */
  now: number;
  print: (line: string) => void;
};

/** What is written at once. */
const recordsAtOnce = 1_000;
const hourMs = 3_600_000;

const minted = z.object({ key: z.string() });
const listed = z.object({
  data: z.array(z.object({ id: z.string(), name: z.string(), default: z.boolean(), state: z.string() })),
});
type ListedKey = z.infer<typeof listed>['data'][number];

/** Seeds accounts. Data of an earlier run is not changed, and none is added twice. Throws if the service rejects a request. */
export function createSeeding(deps: Deps) {
  const { url, store, recount, tokenOf, allowanceOf, modelServers, now, print } = deps;

  const send = createSend(url);
  const keysOf = async (token: string) => listed.parse(await send('GET', '/v1/keys', token)).data;

  /** The new full key, or undefined if the account already has one. */
  async function openAccount(
    { name, plan, rotates, keys = [] }: SeedAccount,
    token: string,
  ): Promise<string | undefined> {
    if ((await keysOf(token)).some((key) => key.default)) return undefined;
    const { key } = minted.parse(await send('POST', '/v1/keys/developer', token, {}));
    await send('PATCH', `/admin/accounts/${encodeURIComponent(`user:${name}`)}`, await tokenOf('olga', true), { plan });
    for (const each of keys) await send('POST', '/v1/keys', token, keyBody(each, now));
    return rotates ? minted.parse(await send('POST', '/v1/keys/developer/rotate', token, { key })).key : key;
  }

  /** Returns how many requests were recorded. A month that has usage already stays as it is. */
  async function recordPast(seeded: SeedAccount, keys: readonly ListedKey[]): Promise<number> {
    const account = `user:${seeded.name}`;
    const callers = callersOf(seeded, { account, keys, allowance: allowanceOf(seeded.plan) });
    // In the order of the outbox over all keys, as a worker would read them.
    const records = callers
      .flatMap((caller) => pastUsage(caller, now))
      .toSorted((one, other) => (one.entry < other.entry ? -1 : 1));
    let count = 0;
    for (const [month, ofMonth] of Map.groupBy(records, (record) => record.month)) {
      if ((await store.usage.findUsageSum(account, month)) !== undefined) continue;
      for (const part of partsOf(ofMonth)) await store.usage.recordUsage(part);
      count += ofMonth.length;
      for (const keyId of [undefined, ...callers.map((caller) => caller.keyId)])
        await recount({ account, keyId }, month, 'replace');
    }
    const [caller] = callers;
    if (seeded.requestsPerDay >= busyRequestsPerDay && caller !== undefined)
      await store.usage.recordRefusals(pastRefusals(caller, now));
    return count;
  }

  async function sendRequests({ models, requestsNow }: SeedAccount, key: string): Promise<void> {
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key });
    const chats = models.filter(({ endpoint }) => endpoint === '/v1/chat/completions');
    const chosen = Array.from({ length: requestsNow }, (_, index) => chats[index % chats.length]?.model);
    await Promise.all(
      chosen.map((model) => client.chat.completions.create(chatBody('Say something about the sea.', 40, model))),
    );
  }

  async function seedAccount(account: SeedAccount): Promise<void> {
    const { name } = account;
    const token = await tokenOf(name);
    const key = await openAccount(account, token);
    const recorded = await recordPast(account, await keysOf(token));
    if (key !== undefined) await sendRequests(account, key);
    const parts = [
      key === undefined ? 'has a key already' : `a new account with plan ${account.plan}`,
      `${recorded} requests recorded`,
      ...(key !== undefined && account.requestsNow > 0 ? [`${account.requestsNow} sent now`] : []),
    ];
    print(`${name}: ${parts.join(', ')}`);
  }

  /** A running batch takes all workers that batches have, so it comes after those that are to end. */
  async function seedBatchesOf({ name, batches = [] }: SeedAccount): Promise<void> {
    if (batches.length === 0) return;
    const isNew = await seedBatches(batches, { url, modelServers, token: await tokenOf(name) });
    print(`${name}: ${isNew ? `batches ${batches.join(', ')}` : 'has batches already'}`);
  }

  return async function seedAll(accounts: readonly SeedAccount[]): Promise<void> {
    for (const account of accounts) await seedAccount(account);
    const runLast = (account: SeedAccount) => (account.batches?.includes('running') ? 1 : 0);
    for (const account of accounts.toSorted((one, other) => runLast(one) - runLast(other)))
      await seedBatchesOf(account);
  };
}

/** Calls the API. Throws if it rejects the request. */
function createSend(url: string) {
  return async function send(method: string, path: string, bearer: string, body?: object): Promise<unknown> {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} was refused: ${response.status} ${text}`);
    return JSON.parse(text);
  };
}

function keyBody({ name, expiresInHours, tokensPerMonth }: SeedKey, now: number): object {
  return {
    name,
    ...(expiresInHours !== undefined && { expires_at: Math.floor((now + expiresInHours * hourMs) / 1_000) }),
    ...(tokensPerMonth !== undefined && { limits: { tokens_per_month: tokensPerMonth } }),
  };
}

type Known = { account: string; keys: readonly ListedKey[]; allowance: number | undefined };

/** The default key has most of the usage. A further key has some, and what its limit needs. */
function callersOf(seeded: SeedAccount, { account, keys, allowance }: Known): PastCaller[] {
  const { plan, models, requestsPerDay, fillsMonthTo = 0, keys: further = [] } = seeded;
  const common = { account, plan, models };
  const own = keys.find((key) => key.default && key.state === 'active');
  const ofDefault = { ...common, requestsPerDay, fillsTo: Math.floor((allowance ?? 0) * fillsMonthTo) };
  return [
    ...(own === undefined ? [] : [{ ...ofDefault, keyId: own.id }]),
    ...further.flatMap(({ name, fillsTo }) => {
      const key = keys.find((each) => each.name === name);
      return key === undefined ? [] : [{ ...common, keyId: key.id, requestsPerDay: 3, fillsTo }];
    }),
  ];
}

function partsOf(records: readonly UsageRecord[]): UsageRecord[][] {
  const starts = Array.from({ length: Math.ceil(records.length / recordsAtOnce) }, (_, index) => index * recordsAtOnce);
  return starts.map((start) => records.slice(start, start + recordsAtOnce));
}
