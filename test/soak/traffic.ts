import { setTimeout as sleep } from 'node:timers/promises';
import type { Stack } from '../stack/stack.ts';
import { createKeyClient } from '../support/key-client.ts';
import type { Random } from '../support/random.ts';
import { askInTurn } from './ask-in-turn.ts';
import { submitBatches } from './submit-batches.ts';

/** How often each outcome occurred, by a short name. */
export type Tally = Record<string, number>;

/** `answered`: the ids of requests with a complete answer and status 200, including lines of batches. */
export type TrafficReport = { tally: Tally; answered: readonly string[] };

export const accounts = Array.from({ length: 12 }, (_, index) => `soak-${index + 1}`);
const clients = 16;
const devices = Array.from({ length: 20 }, (_, index) => `soak-device-${index + 1}`);
const modelServerFailure = { forMs: 3_000, everyMs: 10_000 };

export type TrafficParts = {
  stack: Stack;
  random: Random;
  count: (what: string) => void;
  answered: (requestId: string) => void;
  /** An error of a step is counted as `failed: …`, and the traffic continues, because one reset connection would end all of it. */
  attempt: (what: string, step: () => Promise<void>) => Promise<void>;
  signal: AbortSignal;
};

/** Does everything that users and operators do, concurrently, until it is stopped. The random choices depend on the seed. */
export async function startTraffic(stack: Stack, random: Random) {
  const stopping = new AbortController();
  const tally: Tally = {};
  const count = (what: string) => {
    tally[what] = (tally[what] ?? 0) + 1;
  };
  const answered: string[] = [];
  async function attempt(what: string, step: () => Promise<void>): Promise<void> {
    try {
      await step();
    } catch (error) {
      count(`failed: ${what}: ${reasonOf(error)}`);
    }
  }
  const parts: TrafficParts = {
    ...{ stack, random, count, attempt, signal: stopping.signal },
    answered: (requestId) => answered.push(requestId),
  };
  const keys = new Map<string, string>();
  const client = createKeyClient(stack);
  for (const account of accounts) keys.set(account, await currentKey(account));
  // Every device is known from the start, so that the number of devices does not grow later.
  for (const device of devices) await client.infer(String((await client.guest(device)).body.key));

  /** The key of an earlier traffic can only be rotated, because a key is shown in full once. */
  async function currentKey(account: string): Promise<string> {
    const minted = await client.mint(account);
    const key = String(minted.body.key);
    if (!key.endsWith('****')) return key;
    return String((await client.rotate(account, key)).body.key);
  }

  async function changeKeys(): Promise<void> {
    const account = random.oneOf(accounts);
    const key = keys.get(account) ?? '';
    if (random() < 0.7) {
      const { status, body } = await client.rotate(account, key);
      if (status !== 200) throw new Error(`a key was not rotated: ${status}`);
      keys.set(account, String(body.key));
      count(`key rotated: ${status}`);
    } else {
      count(`key revoked: ${(await client.revoke(account, key)).status}`);
      keys.set(account, await currentKey(account));
    }
  }

  async function changePlans(): Promise<void> {
    const account = `user:${random.oneOf(accounts)}`;
    const topUp = { id: `top-up-${Math.floor(random() * 100)}`, tokens: 1_000 };
    const settings = random.oneOf([{ plan: 'pro' }, { plan: 'free' }, { overageEnabled: random() < 0.5 }, { topUp }]);
    count(`account changed: ${(await client.change(account, settings)).status}`);
  }

  async function comeAsGuest(): Promise<void> {
    const { status, body } = await client.guest(random.oneOf(devices));
    count(`guest key: ${status}`);
    if (status === 200) count(`guest asked: ${(await client.infer(String(body.key))).status}`);
  }

  async function failForAWhile(): Promise<void> {
    const server = stack.modelServers[1];
    server.fail(random.oneOf([{ status: 500 }, { resetBeforeHeaders: true }, { hang: true }, { cutAfterChunks: 3 }]));
    await sleep(modelServerFailure.forMs, undefined, { signal: stopping.signal }).catch(() => {});
    server.heal();
  }

  const running = [
    ...Array.from({ length: clients }, () =>
      askInTurn({ ...parts, keyOf: () => keys.get(random.oneOf(accounts)) ?? '' }),
    ),
    repeat('keys', changeKeys, 10_000),
    repeat('plans', changePlans, 2_000),
    repeat('guests', comeAsGuest, 3_000),
    repeat('model server', failForAWhile, modelServerFailure.everyMs - modelServerFailure.forMs),
    submitBatches({ ...parts, key: await batchKey() }),
  ];

  async function batchKey(): Promise<string> {
    const key = await currentKey('soak-batches');
    await client.change('user:soak-batches', { plan: 'pro' });
    return key;
  }

  async function repeat(what: string, step: () => Promise<void>, everyMs: number): Promise<void> {
    while (!stopping.signal.aborted) {
      await attempt(what, step);
      await sleep(everyMs, undefined, { signal: stopping.signal }).catch(() => {});
    }
  }

  return {
    tally: tally as Readonly<Tally>,
    async stop(): Promise<TrafficReport> {
      stopping.abort();
      await Promise.all(running);
      return { tally, answered };
    },
  };
}

/** A short text without variable parts, because it is a row of the tally. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  const { code = error.message } = (error.cause ?? error) as { code?: string }; // of a system's error
  return (code.split('\n')[0] ?? '').replace(/\d{3,}/g, '…').slice(0, 60);
}
