import type { Redis } from 'ioredis';
import { z } from 'zod';
import type { Lane } from '../lane.ts';
import { loadScript, redisUnavailable } from '../redis.ts';
import {
  changesKey,
  endedRequestKey,
  fillKey,
  leaseEndsKey,
  leaseHolderOf,
  leaseHoldersKey,
  leasesKey,
  lostRequestsKey,
  outboxKey,
  partitionOf,
  standingKey,
  versionKey,
} from '../redis-keys.ts';
import { leaseGraceMs } from './lease-life.ts';
import { readLua } from './read-lua.ts';

const standingSchema = z
  .tuple([z.int(), z.string(), z.int(), z.int(), z.int(), z.int(), z.int(), z.int(), z.int(), z.int()])
  .transform(([now, month, used, reserved, overageUsed, ...[requests, tokens, resetMs, dayRequests, lost]]) => ({
    now,
    month,
    used,
    reserved,
    overageUsed,
    lastMinute: { requests, tokens, resetMs },
    dayRequests,
    lost,
  }));

const limits = ['quota', 'requests', 'tokens', 'day', 'concurrency'] as const;

// Tried in this order: what is answered most often comes first.
const answerSchema = z.union([
  z.tuple([z.literal('admitted'), z.int(), z.int(), z.int(), z.int(), standingSchema]),
  z.tuple([z.literal('ended')]),
  z.tuple([z.literal('current'), z.int()]),
  z.tuple([z.enum(['stale', 'cold']), z.string()]),
  z.tuple([z.enum(['stands', 'full']), standingSchema]),
  z.tuple([z.literal('refused'), z.enum(limits), z.int(), standingSchema]),
]);

/**
 * What counts against an account, by Redis's clock (`now`, milliseconds): the tokens of the month (`YYYY-MM`) that are used,
 * reserved by requests in flight, and used as overage; requests and tokens of the last minute, which will all have left in
 * `resetMs`; the requests of the day (UTC). `lost`: its leases that were found past their time.
 */
export type Standing = z.infer<typeof standingSchema>;

/** Which limit a request would pass; `concurrency` is that of requests at once. */
export type Limit = (typeof limits)[number];

/**
 * Milliseconds of Redis's clock: a job is first started by `startBy` or not at all, and over by `deadline`. `overage`: the
 * month's allowance was spent when it was admitted.
 */
export type Admission = { admittedAt: number; startBy: number; deadline: number; overage: boolean };

/** What a caller was read under, after it was told to be read again. */
export type Reading = { token: string };

/** `version` is that of the caller at hand, left out where there is none. */
export type Look = {
  account: string;
  requestId: string;
  version?: number | undefined;
  reading?: Reading | undefined;
  lane?: Lane | undefined;
};

/** What a plan and its account's settings allow in a lane; a limit left out is no limit. */
export type Allowance = {
  requestsPerMinute?: number | undefined;
  tokensPerMinute?: number | undefined;
  requestsPerDay?: number | undefined;
  requestsAtOnce?: number | undefined;
  tokensPerMonth?: number | undefined;
  topUp?: { month: string; tokens: number } | undefined;
  overageEnabled: boolean;
};

/** `tokens` are reserved; `report` is what the usage record says should nobody end the request, as JSON. */
export type Charge = { allowance: Allowance; tokens: number; report: string };

/** `stale`: the caller at hand may be overtaken; read it from the store, then ask again with this. */
type Stale = { outcome: 'stale'; reading: Reading };
/** `cold`: this month is not counted in Redis; seed it, then ask again. */
type Cold = { outcome: 'cold'; month: string };

/** `now` is Redis's time, in milliseconds. */
export type Looked = Stale | { outcome: 'current'; now: number };
export type Stood = Stale | Cold | { outcome: 'stands'; standing: Standing };
/** `full`: too much usage waits for the store. `ended`: the request was ended before it could be admitted. */
export type Admitted =
  | Stale
  | Cold
  | { outcome: 'ended' }
  | { outcome: 'full'; standing: Standing }
  | { outcome: 'refused'; limit: Limit; waitMs: number; standing: Standing }
  | { outcome: 'admitted'; admission: Admission; standing: Standing };

/** Each is one round trip, and fails with `SERVICE_UNAVAILABLE`. */
export interface Admit {
  /** The one between a request and its queue: charges it, and gives it a lease, or changes nothing. Idempotent by request id. */
  admit(request: Look, charge: Charge): Promise<Admitted>;
  /** Checks the caller as `admit` does, and tells the account's standing. */
  stand(request: Look): Promise<Stood>;
  /** Checks the caller, and nothing else. */
  look(request: Look): Promise<Looked>;
}

const versionLifeMs = 3_600_000;
/** Longer than a call of the store may take, which gives up after 5 s. */
const readLifeMs = 15_000;
const noVersion = -1;
const noLimit = -1;
/** Leases past their time that one call ends: of more than these the next call's caller should bear some. */
const lostAtMost = 20;
/** A Redis that is out of memory takes no more requests, but keys can still be revoked: their owner has to be looked at. */
const lookFlags = '#!lua flags=allow-oom';

type Parts = { timeouts: { queueMs: number; requestMs: number }; outboxLengthMax: number };

/** Admission by one script; a call that is repeated changes nothing that the first has not. */
export function createAdmit(redis: Redis, { timeouts, outboxLengthMax }: Parts): Admit {
  const lua = readLua(new URL('./admit.lua', import.meta.url), ['standing', 'leases']);
  const runAdmit = loadScript(redis, { name: 'svcAdmit', lua, numberOfKeys: 10 });
  const runLook = loadScript(redis, { name: 'svcLook', lua: lua.replace('#!lua', lookFlags), numberOfKeys: 10 });

  function chargeArgs({ account, lane = 'interactive' }: Look, charge: Charge): (string | number)[] {
    const { allowance, tokens, report } = charge;
    const { requestsPerMinute, tokensPerMinute, requestsPerDay, requestsAtOnce, tokensPerMonth } = allowance;
    const counts = [requestsPerMinute, tokensPerMinute, requestsPerDay, requestsAtOnce, tokensPerMonth];
    const { topUp = { month: '', tokens: 0 }, overageEnabled } = allowance;
    const { queueMs, requestMs } = timeouts;
    return [
      ...[
        report,
        tokens,
        ...counts.map((count) => count ?? noLimit),
        topUp.month,
        topUp.tokens,
        Number(overageEnabled),
      ],
      ...[queueMs, requestMs, leaseGraceMs.admitted, outboxLengthMax, lostAtMost],
      ...[leaseHolderOf({ account, lane }), Number(lane === 'interactive')],
    ];
  }

  const nothing: Charge = { allowance: { overageEnabled: false }, tokens: 0, report: '' };

  async function call(request: Look, mode: 'admit' | 'stand' | 'look', charge = nothing) {
    const { account, requestId, version = noVersion, reading, lane } = request;
    const keys = [
      ...[versionKey(account), fillKey(account), changesKey(account), standingKey(account), leasesKey(account, lane)],
      ...[leaseEndsKey(account, lane), lostRequestsKey(account), endedRequestKey(account, requestId)],
      ...[leaseHoldersKey(partitionOf(account)), outboxKey(partitionOf(account))],
    ];
    const how = reading === undefined ? ['known', requestId] : ['read', reading.token];
    const run = mode === 'admit' ? runAdmit : runLook;
    const lives = [versionLifeMs, readLifeMs];
    const answer = run(keys, [account, version, ...how, mode, ...lives, requestId, ...chargeArgs(request, charge)]);
    return answerSchema.parse(await redisUnavailable(answer));
  }

  return {
    async admit(request, charge) {
      const answer = await call(request, 'admit', charge);
      const common = staleOrCold(answer);
      if (common !== undefined) return common;
      if (answer[0] === 'ended') return { outcome: 'ended' };
      if (answer[0] === 'full') return { outcome: 'full', standing: answer[1] };
      if (answer[0] === 'refused') {
        const [outcome, limit, waitMs, standing] = answer;
        return { outcome, limit, waitMs, standing };
      }
      if (answer[0] !== 'admitted') throw unexpected(answer);
      const [outcome, admittedAt, startBy, deadline, overage, standing] = answer;
      return { outcome, admission: { admittedAt, startBy, deadline, overage: overage === 1 }, standing };
    },
    async stand(request) {
      const answer = await call(request, 'stand');
      const common = staleOrCold(answer);
      if (common !== undefined) return common;
      if (answer[0] !== 'stands') throw unexpected(answer);
      return { outcome: 'stands', standing: answer[1] };
    },
    async look(request) {
      const answer = await call(request, 'look');
      if (answer[0] === 'stale') return { outcome: 'stale', reading: { token: answer[1] } };
      if (answer[0] !== 'current') throw unexpected(answer);
      return { outcome: 'current', now: answer[1] };
    },
  };
}

type Answer = z.infer<typeof answerSchema>;

function staleOrCold(answer: Answer): Stale | Cold | undefined {
  if (answer[0] === 'stale') return { outcome: 'stale', reading: { token: answer[1] } };
  if (answer[0] === 'cold') return { outcome: 'cold', month: answer[1] };
  return undefined;
}

function unexpected([outcome]: Answer): Error {
  return new Error(`the admission script answered "${outcome}" where that has no meaning`);
}
