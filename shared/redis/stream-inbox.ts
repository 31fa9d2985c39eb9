import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { ulid } from 'ulid';
import { within } from '../concurrency/shutdown.ts';
import type { Log } from '../process/log.ts';
import { nodeOf, type Redis } from './connections.ts';

/** A stream that only this process reads. `address` is undefined while there is no stream or Redis does not answer. */
export interface Inbox extends AsyncDisposable {
  address(): string | undefined;
}

type Deps = {
  /** Opens a connection for each stream: a blocked read delays everything behind it. */
  connectReader: () => Redis;
  redis: Redis;
  keyOf: (id: string) => string;
  /** Receives an entry, its names and values in turn. Returns true if more entries follow soon and may be read together. */
  onEntry: (fields: readonly string[]) => boolean;
  /** This stream was lost with all its entries. The next one is opened after this call. */
  onLost: (key: string) => void;
  /**
   * Whether entries are still expected in this stream. If set, a cluster's stream can move: while its node is unavailable, another stream
   * is opened on another node, and this one is read until it is no longer in use.
   */
  isInUse?: (key: string) => boolean;
  log: Log;
  heartbeatMs?: number;
  gatherMs?: number;
  trimMs?: number;
};

/** `lastId` is the id of the last entry that was passed on. `renewedAt`: by `performance.now()`. */
type Stream = { key: string; lastId: string; renewedAt: number };

const lifeMs = 60_000;
const defaultHeartbeatMs = 5_000;
/** In a cluster, other nodes may still be available when that of the stream is not. */
const clusterHeartbeatMs = 500;
/** A failover to a replica should be shorter. Then the stream continues, and its requests do not fail. */
const unavailableMsMax = 3_000;
const blockMs = 2_000;
/** An entry can be a frame of many replies. */
const entriesPerRead = 128;
/** Each read costs a command, and wakes this process up. If the last two were less than twice as long apart, the next one waits this long. */
const defaultGatherMs = 5;
/** Trimming costs a command and a wake-up, like a read. What was read stays this long, or until there are this many characters of it. */
const defaultTrimMs = 500;
const readCharactersMax = 1_048_576;
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
  const { redis, log } = deps;
  const { heartbeatMs = redis.isCluster ? clusterHeartbeatMs : defaultHeartbeatMs } = deps;
  const closing = new AbortController();
  const { signal } = closing;
  const readings = new Map<Promise<void>, Redis>();
  const streams = createOwnStreams(deps, (stream) => {
    const reader = deps.connectReader();
    const read = createRead({ ...deps, reader, stream, isCurrent: () => streams.has(stream), signal });
    const reading = repeat(signal, log, read, () => streams.has(stream)).finally(() => {
      readings.delete(reading);
      reader.disconnect();
    });
    readings.set(reading, reader);
  });

  const beating = repeat(signal, log, async () => {
    await streams.renew();
    await sleep(heartbeatMs, undefined, { signal });
  });

  return {
    address: streams.address,
    [Symbol.asyncDispose]: async () => {
      closing.abort();
      for (const reader of readings.values()) reader.disconnect();
      // A call that waits for Redis ends with its connection. A key that remains expires.
      await within(closeMs, Promise.all([beating, ...readings.keys()]));
      await streams.remove();
    },
  };
}

/** Returns one read of this stream: waits for entries and passes them on. */
function createRead(
  deps: Pick<Deps, 'redis' | 'onEntry' | 'gatherMs' | 'trimMs'> & {
    reader: Redis;
    stream: Stream;
    isCurrent: () => boolean;
    signal: AbortSignal;
  },
): () => Promise<void> {
  const { reader, onEntry, gatherMs = defaultGatherMs, stream, isCurrent, signal } = deps;
  const trimLater = createTrimmer(deps);
  let readAt = Number.NEGATIVE_INFINITY;

  return async function readOnce() {
    const { key, lastId } = stream;
    const answer = await reader.xread('COUNT', entriesPerRead, 'BLOCK', blockMs, 'STREAMS', key, lastId);
    const before = readAt;
    readAt = performance.now();
    const entries = answer?.[0]?.[1] ?? [];
    let characters = 0;
    let moreFollows = entries.length > 0;
    for (const [id, fields] of entries) {
      if (!isCurrent()) return;
      stream.lastId = id;
      moreFollows = onEntry(fields) && moreFollows;
      const length = fields.at(-1)?.length ?? 0;
      trimLater(length);
      characters += length;
      if (characters < charactersPerTurn) continue;
      characters = 0;
      await nextTurn();
    }
    const waitMs = readAt + gatherMs - performance.now();
    if (moreFollows && waitMs > 0 && readAt < before + 2 * gatherMs) await sleep(waitMs, undefined, { signal });
  };
}

/** The stream of this process, under another key after it was lost, and those that it has left but still uses. */
function createOwnStreams(deps: Deps, onOpened: (stream: Stream) => void) {
  const { redis, keyOf, onLost, isInUse, log } = deps;
  let current: Stream | undefined;
  let isRenewed = false;
  const left = new Set<Stream>();

  /** Returns false if the stream does not exist any more. */
  async function extend(stream: Stream): Promise<boolean> {
    const exists = (await redis.pexpire(stream.key, lifeMs)) === 1;
    if (exists) stream.renewedAt = performance.now();
    return exists;
  }

  async function renewCurrent(): Promise<void> {
    try {
      if (current !== undefined && !(await extend(current))) {
        const { key } = current;
        log.warn({ stream: key }, 'the stream was lost; opening another');
        current = undefined;
        onLost(key);
      }
      if (current === undefined) {
        current = await openStream(redis, freshKey());
        onOpened(current);
      }
      isRenewed = true;
    } catch (error) {
      isRenewed = false;
      if (redis.isCluster && isInUse !== undefined) leave();
      throw error;
    }
  }

  function leave(): void {
    if (current === undefined) return;
    log.warn({ stream: current.key }, 'the node of the stream is unavailable; opening another stream');
    left.add(current);
    current = undefined;
  }

  /** A key on a node where no stream is that was left, if there is such a node. */
  function freshKey(): string {
    const avoided = new Set([...left].map(({ key }) => nodeOf(redis, key)));
    let key = keyOf(ulid());
    for (let tries = 1; avoided.size > 0 && avoided.has(nodeOf(redis, key)) && tries < 100; tries++)
      key = keyOf(ulid());
    return key;
  }

  async function renewLeft(stream: Stream): Promise<void> {
    const isAlive = await extend(stream).catch(() => performance.now() - stream.renewedAt < unavailableMsMax);
    if (isAlive && isInUse?.(stream.key)) return;
    left.delete(stream);
    if (!isAlive) onLost(stream.key);
    else await remove(stream);
  }

  async function remove({ key }: Stream): Promise<void> {
    await within(closeMs, redis.del(key)).catch(() => {});
  }

  return {
    has: (stream: Stream) => stream === current || left.has(stream),
    address: () => (isRenewed && redis.status === 'ready' ? current?.key : undefined),
    renew: () => Promise.all([renewCurrent(), ...[...left].map(renewLeft)]),
    async remove(): Promise<void> {
      if (redis.status !== 'ready') return;
      await Promise.all([...left, ...(current === undefined ? [] : [current])].map(remove));
    },
  };
}

async function openStream(redis: Redis, key: string): Promise<Stream> {
  await redis.multi().xadd(key, '*', 'opened', '1').pexpire(key, lifeMs).exec();
  return { key, lastId: '0', renewedAt: performance.now() };
}

/**
 * Removes all entries that were read, including the last: they can hold a client's text. After an error, they stay until the next trim.
 */
function createTrimmer({
  redis,
  stream,
  isCurrent,
  trimMs = defaultTrimMs,
}: Pick<Deps, 'redis' | 'trimMs'> & { stream: Stream; isCurrent: () => boolean }) {
  let timer: NodeJS.Timeout | undefined;
  let readCharacters = 0;

  function trim(): void {
    timer = undefined;
    readCharacters = 0;
    if (isCurrent()) redis.xtrim(stream.key, 'MINID', '=', idAfter(stream.lastId)).catch(() => {});
  }

  return function trimLater(characters: number): void {
    readCharacters += characters;
    timer ??= setTimeout(trim, trimMs);
    if (readCharacters < readCharactersMax) return;
    clearTimeout(timer);
    trim();
  };
}

/** Waits until the stream exists: before that, there is no address to reply to. */
export async function waitUntilOpen(inbox: Inbox, signal: AbortSignal): Promise<void> {
  while (inbox.address() === undefined) await sleep(20, undefined, { signal });
}

async function repeat(signal: AbortSignal, log: Log, step: () => Promise<void>, isNeeded = () => true): Promise<void> {
  while (!signal.aborted && isNeeded()) {
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
