import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, openClient, type TimedAnswer } from './ask.ts';
import type { LockEnd } from './lock-ends.ts';
import { worstMinute } from './worst-minute.ts';

export const limits = { perMinute: 100, tokensPerMinute: 1_000, atOnce: 4, awayPerMinute: 20 };

/** A gateway under test. Each of `keys` has only the limit that its test needs. */
export type Subject = {
  name: string;
  url: string;
  keys: Record<'edge' | 'tokens' | 'away', string>;
  redis: { stop(): Promise<void>; restart(): Promise<void> };
  /** Processes that are killed at once, and started again, by name. Each has its own key. */
  killings: Record<string, Killing>;
};

type Killing = { key: string; kill: () => Promise<void>; lockEnd: () => Promise<LockEnd | undefined> };

const lockedForMsMax = 90_000;
const awayRequests = 50;
const tokensEach = 50;

/**
 * Sends requests from shortly before the end of a one-minute window until shortly after, for windows that start with the clock's minute
 * or with the first request. The rate is low enough for every gateway, because requests in a backlog would be sent too late.
 */
export async function askAtEdge({ url, keys }: Subject): Promise<string> {
  await using client = openClient(url);
  const begunAt = await beginWithMinute();
  const asked = [client.ask(keys.edge, 'Say 1 tokens.')];
  for (let sent = 0; sent < 300; sent++) {
    await sleepUntil(begunAt + 45_000 + 100 * sent);
    asked.push(client.ask(keys.edge, 'Say 1 tokens.'));
  }
  return `${worstMinute(admitted(await Promise.all(asked)).map((each) => ({ ...each, amount: 1 })))} in 60 s`;
}

/** Sends many requests at once on either side of the end of such a window. */
export async function askForTokens({ url, keys }: Subject): Promise<string> {
  await using client = openClient(url);
  const begunAt = await beginWithMinute();
  const ask = () => client.ask(keys.tokens, `Say ${tokensEach} tokens.`, { max_tokens: tokensEach });
  const asked = [await ask()];
  for (const afterMs of [50_000, 62_000]) {
    await sleepUntil(begunAt + afterMs);
    asked.push(...(await Promise.all(Array.from({ length: 100 }, ask))));
  }
  const taken = admitted(asked).map((each) => ({ ...each, amount: each.tokens }));
  return `${worstMinute(taken)} in 60 s`;
}

async function sleepUntil(at: number): Promise<void> {
  await sleep(Math.max(0, at - performance.now()));
}

async function beginWithMinute(): Promise<number> {
  await sleep(60_050 - (Date.now() % 60_000));
  return performance.now();
}

export async function askWithoutRedis({ url, keys, redis }: Subject): Promise<string> {
  await using client = openClient(url);
  await client.ask(keys.away, 'Say 1 tokens.');
  await redis.stop();
  try {
    const asking: Promise<TimedAnswer>[] = [];
    for (let sent = 0; sent < awayRequests; sent++) {
      asking.push(client.ask(keys.away, 'Say 1 tokens.'));
      await sleep(40); // if sent at once, one process of a gateway would take them all
    }
    const asked = await Promise.all(asking);
    return `${admitted(asked).length} of ${awayRequests}, the others ${statusesOf(asked)}`;
  } finally {
    await redis.restart();
  }
}

/**
 * Opens as many streams as allowed, kills with -9, and measures how long it takes until as many concurrent requests all pass. If that
 * takes too long, the end is read from Redis.
 */
export async function askAfterKilling({ url }: Subject, { key, kill, lockEnd }: Killing): Promise<string> {
  await using streams = openClient(url);
  const opened = Array.from({ length: limits.atOnce }, () => streams.open(key, 'Say 6000 tokens, 20 a second.'));
  await Promise.all(opened);
  if ((await passing(streams, key)) > 0) return 'not measured: more passed than the limit before it';
  const [killedAt, killedTime] = [performance.now(), Date.now()];
  await kill();
  await using client = openClient(url);
  let first: number | undefined;
  while (true) {
    const askedAt = performance.now();
    const refused = limits.atOnce - (await passing(client, key));
    first ??= refused;
    const seconds = ((askedAt - killedAt) / 1_000).toFixed(0);
    if (refused === 0) return first === 0 ? `none (asked after ${seconds} s)` : `${first}, none after ${seconds} s`;
    if (askedAt - killedAt > lockedForMsMax) {
      const end = await lockEnd();
      const until = end && `; until ${((end.at - killedTime) / 1_000).toFixed(0)} s, by ${end.by}`;
      return `${refused}, still after ${seconds} s${until ?? ''}`;
    }
    await sleep(1_000);
  }
}

/** How many of the maximum of concurrent requests pass. They overlap. */
async function passing(client: Client, key: string): Promise<number> {
  const asking = Array.from({ length: limits.atOnce }, () =>
    client.ask(key, 'Say 8 tokens, 20 a second.', { stream: true }),
  );
  return admitted(await Promise.all(asking)).length;
}

function admitted(asked: readonly TimedAnswer[]): TimedAnswer[] {
  return asked.filter(({ status }) => status === 200);
}

function statusesOf(asked: readonly TimedAnswer[]): string {
  const statuses = asked.flatMap(({ status }) => (status === 200 ? [] : [status === 0 ? 'without an answer' : status]));
  return [...new Set(statuses)].join(' and ') || 'none';
}
