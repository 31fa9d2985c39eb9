import { answerKeptMs, keptBytesMax } from '../../shared/jobs/idempotency.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { guestPlan } from '../../shared/plan-file/plan-file-schema.ts';
import type { Log } from '../../shared/process/log.ts';
import { partitionCount } from '../../shared/redis/keys.ts';
import { type Bytes, type ItemBytes, itemBytes } from './item-bytes.ts';

/** What a service has to hold, in units that an operator knows. */
export type Demand = {
  accounts: number;
  devices: number;
  /** Further keys with limits of their own that were used within two days. */
  limitedKeys: number;
  requestsPerSecond: number;
  bodyKib: number;
  /** Requests per second with an idempotency key, and the mean size of their answers. */
  idempotentRequestsPerSecond: number;
  answerKib: number;
  waitingSeconds: number;
  runningSeconds: number;
  storeAwayHours: number;
  /** `request_ms` of the plan file. */
  deadlineSeconds: number;
  /** For each account and day, combinations of model, key and endpoint. */
  detailsPerDay: number;
  batchAccounts: number;
};

export type Part = { what: string; bytes: number };

/** `redis`: at the end of the outage of the store. `store`: what a month adds, except the accounts. */
export type Estimate = {
  redis: Part[];
  redisBytes: number;
  /** For the setting `maxmemory` of Redis. */
  maxmemoryBytes: number;
  /** For `OUTBOX_LENGTH_MAX`. */
  outboxLength: number;
  /** In Redis, of one account whose plan has no limit of requests, if it sends a thousand in each minute. */
  thousandPerMinuteBytes: number;
  sqlite: Part[];
  mongodb: Part[];
};

const hourSeconds = 3_600;
const monthDays = 30;
const daySeconds = 86_400;
/** An ended request is remembered for an hour past its deadline (`shared/limits/admit.ts`). */
const markedSeconds = 3_600;
/** Events are trimmed 10 s after they were drained (`workers/usage/usage-drainer.ts`). */
const drainedSeconds = 10;
/** Lines in progress of one account (`contract.md#u2-line-window`). */
const linesOfAccount = 256;
/** A Redis without free memory refuses requests, and its own buffers need room. */
const spare = 1.5;
/** Kept answers have a quarter of `maxmemory` (`contract.md#ho1-budgets-of-kept-answers`). */
const keptShare = 4;
/** Accounts are spread by a hash, and a busy one makes its partition's outbox longer. */
const unevenness = 2;

/** Adds up the measured bytes of all items. An estimate for typical names: long ones, and logs of long outages, take more. */
export function estimateMemory(demand: Demand, { redis, sqlite, mongodb }: ItemBytes): Estimate {
  const kept = keptAnswers(demand, redis);
  const parts = [
    ...redisParts(demand, redis),
    { what: 'answers that are kept', bytes: kept },
    { what: 'Redis itself', bytes: redis.atRest.bytes },
  ];
  const redisBytes = sumOf(parts);
  const eventsAway = demand.requestsPerSecond * (drainedSeconds + demand.storeAwayHours * hourSeconds);
  return {
    redis: parts,
    redisBytes,
    maxmemoryBytes: Math.max(redisBytes * spare, kept * keptShare),
    outboxLength: Math.ceil((eventsAway * unevenness) / partitionCount),
    thousandPerMinuteBytes: 1_000 * minutesMarked(demand.deadlineSeconds) * redis.endedMark.bytes,
    sqlite: storeParts(demand, sqlite),
    mongodb: storeParts(demand, mongodb),
  };
}

export function sumOf(parts: readonly Part[]): number {
  return parts.reduce((sum, { bytes }) => sum + bytes, 0);
}

function redisParts(demand: Demand, of: ItemBytes['redis']): Part[] {
  const { accounts, devices, requestsPerSecond, bodyKib, waitingSeconds, runningSeconds, storeAwayHours } = demand;
  const active = Math.min(accounts + devices, requestsPerSecond * hourSeconds);
  const [waiting, running] = [requestsPerSecond * waitingSeconds, requestsPerSecond * runningSeconds];
  const lines = demand.batchAccounts * linesOfAccount;
  return [
    { what: 'accounts', bytes: accounts * of.account.bytes },
    { what: 'devices', bytes: devices * of.device.bytes },
    { what: 'further keys with limits', bytes: demand.limitedKeys * of.limitedKey.bytes },
    { what: 'accounts in use within an hour', bytes: active * (of.activeAccount.bytes - of.account.bytes) },
    { what: 'waiting requests', bytes: waiting * withContent(of.waiting, bodyKib) },
    { what: 'running requests', bytes: running * withContent(of.running, bodyKib) },
    { what: 'their leases', bytes: (waiting + running) * of.lease.bytes },
    {
      what: 'marks of ended requests',
      bytes: requestsPerSecond * 60 * minutesMarked(demand.deadlineSeconds) * of.endedMark.bytes,
    },
    { what: 'usage events, store available', bytes: requestsPerSecond * drainedSeconds * of.usageEvent.bytes },
    {
      what: 'usage events, store away',
      bytes: requestsPerSecond * storeAwayHours * hourSeconds * of.usageEvent.bytes,
    },
    { what: 'lines of batches', bytes: lines * (withContent(of.lineWaiting, bodyKib) + of.furtherLease.bytes) },
  ];
}

function keptAnswers({ idempotentRequestsPerSecond, answerKib }: Demand, of: ItemBytes['redis']): number {
  return ((idempotentRequestsPerSecond * answerKeptMs) / 1_000) * withContent(of.keptAnswer, answerKib);
}

/** Requests of a plan. An omitted limit means none. */
type PlanLimits = { requestsPerMinute?: number | undefined; requestsPerDay?: number | undefined };

/** Keys that an account can have used within two days: those of three days, UTC. */
const usedKeysMax = 3_000;

/**
 * Returns what one account of a plan can leave in Redis besides its requests in progress: the marks of its requests, kept answers, and
 * counters of keys. Undefined if the plan does not bound its requests.
 */
export function accountBytes(limits: PlanLimits, timeouts: Timeouts, of: ItemBytes['redis']): number | undefined {
  const marks = marksMax(limits, timeouts);
  if (marks === undefined) return undefined;
  const kept = (keptBytesMax / 1_024) * (of.keptAnswer.perKibibyte ?? 0);
  return of.activeAccount.bytes + marks * of.endedMark.bytes + kept + usedKeysMax * of.limitedKey.bytes;
}

/** The same for the devices that one network can create in a day, without kept answers, which have a budget together, and without keys. */
export function networkBytes(
  limits: PlanLimits & { guestMintsPerHour: number },
  timeouts: Timeouts,
  of: ItemBytes['redis'],
): number | undefined {
  const marks = marksMax(limits, timeouts);
  if (marks === undefined) return undefined;
  return 24 * limits.guestMintsPerHour * (of.activeAccount.bytes + marks * of.endedMark.bytes);
}

type Timeouts = { requestMs: number };

function marksMax({ requestsPerMinute, requestsPerDay }: PlanLimits, { requestMs }: Timeouts): number | undefined {
  const limits = [
    ...(requestsPerMinute === undefined ? [] : [requestsPerMinute * minutesMarked(requestMs / 1_000)]),
    ...(requestsPerDay === undefined ? [] : [2 * requestsPerDay]),
  ];
  return limits.length === 0 ? undefined : Math.min(...limits);
}

function minutesMarked(deadlineSeconds: number): number {
  return (deadlineSeconds + markedSeconds) / 60;
}

function storeParts(demand: Demand, of: ItemBytes['sqlite']): Part[] {
  const { accounts, devices, requestsPerSecond, detailsPerDay } = demand;
  const requests = requestsPerSecond * monthDays * daySeconds;
  const details = Math.min(requests, (accounts + devices) * monthDays * detailsPerDay);
  return [
    { what: 'accounts and devices, once', bytes: accounts * of.account.bytes + devices * of.device.bytes },
    { what: 'usage records of a month', bytes: requests * of.usageRecord.bytes },
    { what: 'usage details of a month', bytes: details * of.usageDetail.bytes },
    { what: 'their hours, at most', bytes: Math.min(requests, details * 24) * of.usageHour.bytes },
    { what: 'totals of a month', bytes: Math.min(requests, accounts + devices) * of.usageTotal.bytes },
  ];
}

function withContent({ bytes, perKibibyte = 0 }: Bytes, kib: number): number {
  return bytes + perKibibyte * kib;
}

/**
 * Warns of each plan on which one account, or the devices of one network, can leave more in Redis than it may use, because then all other
 * requests would be refused. Names the plans that have no such bound.
 */
export function warnOfLargePlans({
  plans,
  guestMintsPerHour,
  timeouts,
  memoryBytes,
  log,
}: Pick<PlanFile, 'plans' | 'guestMintsPerHour' | 'timeouts'> & {
  /** What Redis may use; 0 if it is not known. */
  memoryBytes: number;
  log: Pick<Log, 'info' | 'warn'>;
}): void {
  const unbounded: string[] = [];
  for (const [plan, limits] of Object.entries(plans)) {
    const bytes =
      plan === guestPlan
        ? networkBytes({ ...limits, guestMintsPerHour }, timeouts, itemBytes.redis)
        : accountBytes(limits, timeouts, itemBytes.redis);
    if (bytes === undefined) unbounded.push(plan);
    else if (memoryBytes > 0 && bytes > memoryBytes) {
      const sizes = { mebibytes: toMebibytes(bytes), redisMebibytes: toMebibytes(memoryBytes) };
      log.warn({ plan, ...sizes }, plan === guestPlan ? ofNetworks : ofAccounts);
    }
  }
  if (unbounded.length > 0) log.info({ plans: unbounded }, ofUnbounded);
}

const ofAccounts =
  'One account on this plan can fill Redis: lower its requests per minute or per day, or raise maxmemory';
const ofNetworks =
  'The devices of one network can fill Redis: lower guest_mints_per_hour or the requests of this plan, or raise maxmemory';
const ofUnbounded =
  'Accounts on these plans can fill Redis with the marks of ended requests: requests_per_minute and requests_per_day bound them';

const toMebibytes = (bytes: number) => Math.round(bytes / 1_048_576);
