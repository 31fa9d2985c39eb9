import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { within } from '../../shared/concurrency/shutdown.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { assetSetKey } from '../../shared/redis/keys.ts';
import { assetType, releaseOf, type StaticContent } from './static-content.ts';

const keptSeconds = 86_400;
const shareEveryMs = 43_200_000;
const shareAgainMs = 10_000;
const shareWaitMs = 500;
/** Far more than any set has. */
const setBytesMax = 16_777_216;
/** No more releases run side by side. */
const releasesMax = 10;
/** Anyone can ask for any name: each unknown release is asked for once in this time, and so many of them are. */
const unknownMs = 1_000;
const unknownMax = 20;
const setName = /^([\w-]{16})\//;

const filesSchema = z.array(z.tuple([z.string(), z.string()]));

type Files = ReadonlyMap<string, string>;

/**
 * The assets of pages, shared by all ingresses: while releases run side by side, a page of one of them can ask an ingress of another one
 * for its assets. A set is used only if it has the hash in its name, so a process that can write to Redis cannot change a script.
 */
export function createSharedAssets({
  redis,
  log,
  now = () => performance.now(),
}: {
  redis: Redis;
  log: Pick<Log, 'debug'>;
  now?: () => number;
}) {
  const sharing = new Map<string, { until: number; done: Promise<void> }>();
  const found = new LRUCache<string, Files>({ max: releasesMax });
  const asked = new LRUCache<string, Promise<Files | undefined>>({
    max: unknownMax,
    ttl: unknownMs,
    ttlResolution: 0,
    perf: { now },
  });

  async function write(release: string, assets: ReadonlyMap<string, StaticContent>): Promise<void> {
    const files = [...assets].map(([name, { bytes }]) => [name.slice(release.length + 1), bytes.toString('utf8')]);
    const packed = await promisify(gzip)(JSON.stringify(files));
    await redis.set(assetSetKey(release), packed, 'EX', keptSeconds);
  }

  async function read(release: string): Promise<Files | undefined> {
    const packed = await redis.getBuffer(assetSetKey(release));
    if (packed === null) return undefined;
    const text = await promisify(gunzip)(packed, { maxOutputLength: setBytesMax });
    const files = new Map(filesSchema.parse(JSON.parse(text.toString('utf8'))));
    return releaseOf(files) === release ? files : undefined;
  }

  /** A set that was found stays known; any other answer is asked for again. */
  async function filesOf(release: string): Promise<Files | undefined> {
    const known = found.get(release);
    if (known !== undefined) return known;
    asked.purgeStale();
    const earlier = asked.get(release);
    if (earlier !== undefined || asked.size >= unknownMax) return earlier;
    const answer = read(release).catch((error: unknown) => {
      log.debug({ err: error }, 'assets of another release could not be read');
      return undefined;
    });
    asked.set(release, answer);
    const files = await answer;
    if (files !== undefined) found.set(release, files);
    return files;
  }

  function shareNow(release: string, assets: ReadonlyMap<string, StaticContent>): Promise<void> {
    const until = now() + shareEveryMs;
    const done = write(release, assets).catch((error: unknown) => {
      sharing.set(release, { until: now() + shareAgainMs, done });
      log.debug({ err: error }, 'assets were not shared with other ingresses');
    });
    sharing.set(release, { until, done });
    return done;
  }

  return {
    /**
     * Makes a set known to the others, at most every twelve hours: before its page is sent, because the browser may ask another ingress
     * next. Never fails, and takes half a second at most.
     */
    async share(assets: ReadonlyMap<string, StaticContent>): Promise<void> {
      const [first] = assets.keys();
      const release = setName.exec(first ?? '')?.[1];
      if (release === undefined) return;
      const earlier = sharing.get(release);
      const done = earlier !== undefined && now() < earlier.until ? earlier.done : shareNow(release, assets);
      await within(shareWaitMs, done);
    },
    /** Finds an asset that another ingress has shared within a day. Undefined if there is none, or Redis is unavailable. */
    async find(name: string): Promise<StaticContent | undefined> {
      const release = setName.exec(name)?.[1];
      const path = name.slice((release?.length ?? 0) + 1);
      const type = assetType(path);
      if (release === undefined || type === undefined) return undefined;
      const text = (await filesOf(release))?.get(path);
      return text === undefined ? undefined : { type, bytes: Buffer.from(text), hash: release };
    },
  };
}

export type SharedAssets = ReturnType<typeof createSharedAssets>;
