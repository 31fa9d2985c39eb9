import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import type { Log } from '../../shared/process/log.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { assetSetKey } from '../../shared/redis/process-keys.ts';
import { assetType, releaseOf } from './asset-set.ts';
import type { StaticContent } from './static-content.ts';

/**
 * The assets of pages, shared by all ingresses: while releases run side by side, a page of one of them can ask an ingress of another one for
 * its assets. A set is used only if it has the hash in its name, so a process that can write to Redis cannot change a script.
 */
export interface SharedAssets {
  /** Makes a set known to the others, at most every twelve hours. Never fails. */
  share(assets: ReadonlyMap<string, StaticContent>): void;
  /** Finds an asset that another ingress has shared within a day. Undefined if there is none, or Redis is unavailable. */
  find(name: string): Promise<StaticContent | undefined>;
}

const keptSeconds = 86_400;
const shareEveryMs = 43_200_000;
/** Far more than any set has. */
const setBytesMax = 16_777_216;
/** Anyone can ask for any name: an unknown release is asked for once in this time. */
const unknownMs = 10_000;
const releasesMax = 100;
const setName = /^([\w-]{16})\//;

const filesSchema = z.array(z.tuple([z.string(), z.string()]));

type Files = ReadonlyMap<string, string>;

export function createSharedAssets({
  redis,
  log,
  now = () => performance.now(),
}: {
  redis: Redis;
  log: Pick<Log, 'debug'>;
  now?: () => number;
}): SharedAssets {
  const sharedAt = new Map<string, number>();
  const sets = new LRUCache<string, { files: Promise<Files | undefined>; at: number }>({ max: releasesMax });

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
    const known = sets.get(release);
    if (known !== undefined) {
      const files = await known.files;
      if (files !== undefined || now() - known.at < unknownMs) return files;
    }
    const files = read(release).catch((error: unknown) => {
      log.debug({ err: error }, 'assets of another release could not be read');
      return undefined;
    });
    sets.set(release, { files, at: now() });
    return files;
  }

  return {
    share(assets) {
      const [first] = assets.keys();
      const release = setName.exec(first ?? '')?.[1];
      if (release === undefined || now() - (sharedAt.get(release) ?? Number.NEGATIVE_INFINITY) < shareEveryMs) return;
      sharedAt.set(release, now());
      write(release, assets).catch((error: unknown) => {
        sharedAt.delete(release);
        log.debug({ err: error }, 'assets were not shared with other ingresses');
      });
    },
    async find(name) {
      const release = setName.exec(name)?.[1];
      const path = name.slice((release?.length ?? 0) + 1);
      const type = assetType(path);
      if (release === undefined || type === undefined) return undefined;
      const text = (await filesOf(release))?.get(path);
      return text === undefined ? undefined : { type, bytes: Buffer.from(text), hash: release };
    },
  };
}
