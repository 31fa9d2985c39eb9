import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { z } from 'zod';
import { loadScript, redisUnavailable } from '../redis.ts';
import { changesKey, fillKey, versionKey } from '../redis-keys.ts';

const lua = readFileSync(new URL('./admit.lua', import.meta.url), 'utf8');
const answerSchema = z.union([
  z.tuple([z.literal('current'), z.number()]),
  z.tuple([z.literal('reread'), z.number(), z.string()]),
]);

const versionLifeMs = 3_600_000;
/** Longer than a call of the store may take, which gives up after 5 s. */
const readLifeMs = 15_000;
const noVersion = -1;
/** A Redis that is out of memory takes no more requests, but keys can still be revoked: their owner has to be looked at. */
const lookFlags = '#!lua flags=allow-oom';

/** Milliseconds of Redis's clock: a job is first started by `startBy` or not at all, and over by `deadline`. */
export type Admission = { admittedAt: number; startBy: number; deadline: number };

/** `version` is that of the caller at hand, left out where there is none. */
type AdmitRequest = { account: string; requestId: string; version?: number | undefined; reading?: Reading | undefined };

/** What a caller was read under, after it was told to be read again. */
export type Reading = { token: string };

/** `reread`: the caller at hand is not known to be the present one; read it from the store, then ask again with this. */
export type Admitted = { outcome: 'current'; admission?: Admission } | { outcome: 'reread'; reading: Reading };

export interface Admit {
  /** The one round trip between a request and its queue; fails with `SERVICE_UNAVAILABLE`. */
  admit(request: AdmitRequest): Promise<Admitted>;
  /** Checks the caller as `admit` does, and admits nothing. */
  look(request: AdmitRequest): Promise<Admitted>;
}

/** Admission by one script; a call that is repeated changes nothing that the first has not. */
export function createAdmit(redis: Redis, timeouts: { queueMs: number; requestMs: number }): Admit {
  const runAdmit = loadScript(redis, { name: 'svcAdmit', lua, numberOfKeys: 3 });
  const runLook = loadScript(redis, { name: 'svcLook', lua: lua.replace('#!lua', lookFlags), numberOfKeys: 3 });

  async function call(run: typeof runAdmit, { account, requestId, version = noVersion, reading }: AdmitRequest) {
    const keys = [versionKey(account), fillKey(account), changesKey(account)];
    const how = reading === undefined ? ['known', requestId] : ['read', reading.token];
    return answerSchema.parse(await redisUnavailable(run(keys, [version, ...how, versionLifeMs, readLifeMs])));
  }

  async function look(request: AdmitRequest): Promise<Admitted> {
    const [outcome, , token] = await call(runLook, request);
    return outcome === 'reread' ? { outcome, reading: { token } } : { outcome };
  }

  return {
    look,
    async admit(request) {
      const [outcome, now, token] = await call(runAdmit, request);
      if (outcome === 'reread') return { outcome, reading: { token } };
      const { queueMs, requestMs } = timeouts;
      return { outcome, admission: { admittedAt: now, startBy: now + queueMs, deadline: now + requestMs } };
    },
  };
}
