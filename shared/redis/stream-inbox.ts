import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { ulid } from 'ulid';
import type { Log } from '../process/log.ts';
import { within } from '../process/shutdown.ts';

/** A stream that only this process reads. `address` is undefined while there is no stream or Redis does not answer. */
export interface Inbox extends AsyncDisposable {
  address(): string | undefined;
}

const lifeMs = 60_000;
const blockMs = 2_000;
/** An entry can be a frame of many replies. */
const entriesPerRead = 128;
/** Each read costs a command, and wakes this process up. */
const gatherMsUnlessTold = 5;
/** Under load, trimming after each read would be as much work as the read. */
const trimEveryMs = 50;
/** After this many characters the process yields: the replies passed on so far must be written before more are read. */
const charactersPerTurn = 65_536;
/** How long closing may wait for a Redis that does not answer. */
const closeMs = 1_000;

/**
 * Opens a stream under the name that `keyOf` returns, and passes on every entry once, in order, as long as the stream exists. A writer uses
 * NOMKSTREAM, so the same call reports if the reader is gone: the key exists only while a heartbeat renews it.
 */
export function openInbox(deps: {
  /** A separate connection: a blocked read delays everything behind it. */
  reader: Redis;
  redis: Redis;
  keyOf: (id: string) => string;
  /** Receives an entry, its names and values in turn. Returns true if more entries follow soon and may be read together. */
  onEntry: (fields: readonly string[]) => boolean;
  /** The stream was lost with all its entries. The next one is opened after this call. */
  onLost: () => void;
  log: Log;
  heartbeatMs?: number;
  gatherMs?: number;
}): Inbox {
  const { reader, redis, keyOf, onEntry, onLost, log, heartbeatMs = 5_000, gatherMs = gatherMsUnlessTold } = deps;
  const closing = new AbortController();
  let key: string | undefined;
  let lastId = '0';
  let isRenewed = false;
  let trimming: NodeJS.Timeout | undefined;

  async function open(): Promise<void> {
    const fresh = keyOf(ulid());
    await redis.multi().xadd(fresh, '*', 'opened', '1').pexpire(fresh, lifeMs).exec();
    lastId = '0';
    key = fresh;
  }

  async function beat(): Promise<void> {
    if (key !== undefined && (await redis.pexpire(key, lifeMs)) === 0) {
      log.warn({ stream: key }, 'the stream was lost; opening another');
      key = undefined;
      onLost();
    }
    if (key === undefined) await open();
  }

  async function readOnce(stream: string): Promise<void> {
    const answer = await reader.xread('COUNT', entriesPerRead, 'BLOCK', blockMs, 'STREAMS', stream, lastId);
    const readAt = performance.now();
    const entries = answer?.[0]?.[1] ?? [];
    let characters = 0;
    let moreFollows = entries.length > 0;
    for (const [id, fields] of entries) {
      if (stream !== key) return;
      lastId = id;
      moreFollows = onEntry(fields) && moreFollows;
      characters += fields.at(-1)?.length ?? 0;
      if (characters < charactersPerTurn) continue;
      characters = 0;
      await nextTurn();
    }
    if (entries.length > 0) trimming ??= setTimeout(trim, trimEveryMs);
    const waitMs = readAt + gatherMs - performance.now();
    if (moreFollows && waitMs > 0) await sleep(waitMs, undefined, { signal: closing.signal });
  }

  /**
   * Removes all entries that were read, including the last: they can hold a client's text. After an error, they stay until the next trim.
   */
  function trim(): void {
    trimming = undefined;
    if (key !== undefined) redis.xtrim(key, 'MINID', '=', idAfter(lastId)).catch(() => {});
  }

  const beating = repeat(closing.signal, log, async () => {
    try {
      await beat();
      isRenewed = true;
    } catch (error) {
      isRenewed = false;
      throw error;
    }
    await sleep(heartbeatMs, undefined, { signal: closing.signal });
  });
  const reading = repeat(closing.signal, log, async () => {
    if (key === undefined) await sleep(20, undefined, { signal: closing.signal });
    else await readOnce(key);
  });

  return {
    address: () => (isRenewed && redis.status === 'ready' ? key : undefined),
    [Symbol.asyncDispose]: async () => {
      closing.abort();
      clearTimeout(trimming);
      reader.disconnect();
      // A call that waits for Redis ends with its connection. A key that remains expires.
      await within(closeMs, Promise.all([beating, reading]));
      if (key !== undefined && redis.status === 'ready') await within(closeMs, redis.del(key)).catch(() => {});
    },
  };
}

/** Waits until the stream exists: before that, there is no address to reply to. */
export async function waitUntilOpen(inbox: Inbox, signal: AbortSignal): Promise<void> {
  while (inbox.address() === undefined) await sleep(20, undefined, { signal });
}

async function repeat(signal: AbortSignal, log: Log, step: () => Promise<void>): Promise<void> {
  while (!signal.aborted) {
    try {
      await step();
    } catch (error) {
      if (signal.aborted) return;
      log.debug({ err: error }, 'Redis did not answer; retrying');
      await sleep(100, undefined, { signal }).catch(() => {});
    }
  }
}

/** Returns the smallest id that an entry after this one can have. */
function idAfter(id: string): string {
  const [milliseconds, sequence] = id.split('-');
  return `${milliseconds}-${BigInt(sequence ?? 0) + 1n}`;
}

/** Returns the names and values of a stream entry as a record. */
export function fieldsOf(entry: readonly string[]): Record<string, string> {
  const record: Record<string, string> = {};
  for (let index = 0; index + 1 < entry.length; index += 2) {
    const [name, value] = [entry[index], entry[index + 1]];
    if (name !== undefined && value !== undefined) record[name] = value;
  }
  return record;
}
