import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { ulid } from 'ulid';
import type { Log } from '../process/log.ts';
import { within } from '../process/shutdown.ts';

/** A stream that only this process reads. `address` is undefined while there is no stream or Redis does not answer. */
export interface Inbox extends AsyncDisposable {
  address(): string | undefined;
}

type Deps = {
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
};

/** `lastId` is the id of the last entry that was passed on. */
type Stream = { key: string; lastId: string };

const lifeMs = 60_000;
const blockMs = 2_000;
/** An entry can be a frame of many replies. */
const entriesPerRead = 128;
/** Each read costs a command, and wakes this process up. */
const defaultGatherMs = 5;
/** Under load, trimming after each read would be as much work as the read. */
const trimEveryMs = 50;
/** After this many characters the process yields: the replies passed on so far must be written before more are read. */
const charactersPerTurn = 65_536;
/** How long closing may wait for a Redis that does not answer. */
const closeMs = 1_000;

/**
 * Opens a stream under the name that `keyOf` returns, and passes on every entry once, in order, as long as the stream exists. A writer uses
 * NOMKSTREAM, so the same call reports if the reader is gone (decisions.md#one-stream-for-each-ingress): the key exists only while a
 * heartbeat renews it (contract.md#p1-reply-stream).
 */
export function openInbox(deps: Deps): Inbox {
  const { reader, redis, onEntry, log, heartbeatMs = 5_000, gatherMs = defaultGatherMs } = deps;
  const closing = new AbortController();
  const stream = createOwnStream(deps);
  const trimming = createTrimmer(redis, stream.current);

  async function readOnce(opened: Stream): Promise<void> {
    const { key, lastId } = opened;
    const answer = await reader.xread('COUNT', entriesPerRead, 'BLOCK', blockMs, 'STREAMS', key, lastId);
    const readAt = performance.now();
    const entries = answer?.[0]?.[1] ?? [];
    let characters = 0;
    let moreFollows = entries.length > 0;
    for (const [id, fields] of entries) {
      if (stream.current() !== opened) return;
      opened.lastId = id;
      moreFollows = onEntry(fields) && moreFollows;
      characters += fields.at(-1)?.length ?? 0;
      if (characters < charactersPerTurn) continue;
      characters = 0;
      await nextTurn();
    }
    if (entries.length > 0) trimming.begin();
    const waitMs = readAt + gatherMs - performance.now();
    if (moreFollows && waitMs > 0) await sleep(waitMs, undefined, { signal: closing.signal });
  }

  const beating = repeat(closing.signal, log, async () => {
    await stream.renew();
    await sleep(heartbeatMs, undefined, { signal: closing.signal });
  });
  const reading = repeat(closing.signal, log, async () => {
    const opened = stream.current();
    if (opened === undefined) await sleep(20, undefined, { signal: closing.signal });
    else await readOnce(opened);
  });

  return {
    address: stream.address,
    [Symbol.asyncDispose]: async () => {
      closing.abort();
      trimming[Symbol.dispose]();
      reader.disconnect();
      // A call that waits for Redis ends with its connection. A key that remains expires.
      await within(closeMs, Promise.all([beating, reading]));
      await stream.remove();
    },
  };
}

/** The stream of this process, under another key after it was lost. */
function createOwnStream({ redis, keyOf, onLost, log }: Pick<Deps, 'redis' | 'keyOf' | 'onLost' | 'log'>) {
  let stream: Stream | undefined;
  let isRenewed = false;

  return {
    current: () => stream,
    address: () => (isRenewed && redis.status === 'ready' ? stream?.key : undefined),
    async renew(): Promise<void> {
      try {
        if (stream !== undefined && (await redis.pexpire(stream.key, lifeMs)) === 0) {
          log.warn({ stream: stream.key }, 'the stream was lost; opening another');
          stream = undefined;
          onLost();
        }
        stream ??= await openStream(redis, keyOf(ulid()));
        isRenewed = true;
      } catch (error) {
        isRenewed = false;
        throw error;
      }
    },
    async remove(): Promise<void> {
      if (stream === undefined || redis.status !== 'ready') return;
      await within(closeMs, redis.del(stream.key)).catch(() => {});
    },
  };
}

async function openStream(redis: Redis, key: string): Promise<Stream> {
  await redis.multi().xadd(key, '*', 'opened', '1').pexpire(key, lifeMs).exec();
  return { key, lastId: '0' };
}

/**
 * Removes all entries that were read, including the last: they can hold a client's text. After an error, they stay until the next trim.
 */
function createTrimmer(redis: Redis, current: () => Stream | undefined): Disposable & { begin(): void } {
  let timer: NodeJS.Timeout | undefined;

  function trim(): void {
    timer = undefined;
    const stream = current();
    if (stream !== undefined) redis.xtrim(stream.key, 'MINID', '=', idAfter(stream.lastId)).catch(() => {});
  }

  return {
    begin() {
      timer ??= setTimeout(trim, trimEveryMs);
    },
    [Symbol.dispose]: () => clearTimeout(timer),
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
