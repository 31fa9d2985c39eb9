import { createHash } from 'node:crypto';
import { encodeTime } from 'ulid';
import { entryOf } from '../../../shared/jobs/usage-outbox.ts';
import type { UsageAttempt, UsageRecord } from '../../../shared/store/usage/usage-record.ts';
import type { Refusals } from '../../../shared/store/usage/usage-tables.ts';
import { type Random, seededRandom } from '../../support/random.ts';
import type { PastModel } from './seed-accounts.ts';

/** Whose usage it is. `fillsTo`: how many tokens this month has in the end, in large requests beside the usual ones. */
export type PastCaller = {
  account: string;
  keyId: string;
  plan: string;
  models: readonly PastModel[];
  /** On a working day of this month. */
  requestsPerDay: number;
  fillsTo?: number | undefined;
};

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
/** Months before this one. Each has somewhat more usage than the one before. */
const monthsBefore = 2;
const growth = 1.25;
/** How many requests the hours of a day have (UTC), beside each other. */
const rhythm = [2, 1, 1, 1, 1, 2, 4, 9, 16, 20, 21, 18, 13, 17, 20, 19, 16, 12, 8, 6, 5, 4, 3, 2];
const weekendPart = 0.3;
/** Hours before this one. */
const peakHourAgo = 26;
const badHourAgo = 3;
/** How much of a usual day the peak and the bad hour have at least. */
const peakPart = 0.8;
const badPart = 0.25;
/** The last request has ended when it is recorded. */
const durationMaxMs = 10_000;
const importTokens = 90_000;

/**
 * Usage records of an account up to `now` (milliseconds since 1970), as workers write them, in the order of their outbox entries: a rhythm
 * of days and weeks, a peak on the day before, and a bad hour in which most requests failed. They are the same for the same account and
 * time.
 */
export function pastUsage(caller: PastCaller, now: number): UsageRecord[] {
  const { account, keyId, fillsTo = 0 } = caller;
  const random = seededRandom([...`${account} ${keyId}`].reduce((sum, sign) => sum * 31 + sign.charCodeAt(0), 7));
  const requests = timesOf(caller.requestsPerDay, now, random).map((admittedMs) =>
    requestAt(caller, admittedMs, { now, random }),
  );
  const monthStart = startOfMonth(now, 0);
  const used = requests
    .filter(({ admittedMs }) => admittedMs >= monthStart)
    .reduce((sum, each) => sum + chargedOf(each), 0);
  const all = [...requests, ...importsOf({ caller, tokens: fillsTo - used, from: monthStart, to: now, random })];
  return all
    .toSorted((one, other) => endOf(one) - endOf(other))
    .map((request, index) => recordOf(caller, request, index + 1));
}

const refusalDays = 7;
const refusalHour = 10;

/** Requests that were refused in one hour of each of the last days, because they came too fast or were wrong. */
export function pastRefusals({ account, keyId }: PastCaller, now: number): Refusals[] {
  return Array.from({ length: refusalDays }, (_, daysAgo) => {
    const time = Math.floor(now / dayMs - daysAgo) * dayMs + refusalHour * hourMs;
    const [start, entry] = [new Date(time).toISOString().slice(0, 13), entryOf(`${time}-1`)];
    return [
      { account, start, keyId, code: 'rate_limit_exceeded', requests: 7 + daysAgo * 3, entry },
      { account, start, keyId, code: 'VALIDATION_ERROR', requests: 2, entry },
    ];
  })
    .flat()
    .filter(({ start }) => Date.parse(`${start}:00Z`) < now)
    .toReversed();
}

/** Midnight of the first day, UTC. */
function startOfMonth(now: number, monthsAgo: number): number {
  const today = new Date(now);
  return Date.UTC(today.getUTCFullYear(), today.getUTCMonth() - monthsAgo);
}

/** When requests were admitted. The draws of a day do not depend on `now`, so that another start has the same past. */
function timesOf(requestsPerDay: number, now: number, random: Random): number[] {
  const times: number[] = [];
  for (let monthsAgo = monthsBefore; monthsAgo >= 0; monthsAgo -= 1) {
    const perDay = requestsPerDay / growth ** monthsAgo;
    const endMs = startOfMonth(now, monthsAgo - 1);
    for (let dayMsAt = startOfMonth(now, monthsAgo); dayMsAt < endMs; dayMsAt += dayMs) {
      const count = Math.round(perDay * random.between(0.7, 1.3) * (isWeekend(dayMsAt) ? weekendPart : 1));
      for (let each = 0; each < count; each += 1) times.push(dayMsAt + timeOfDay(random));
    }
  }
  times.push(...within(hourStart(now, peakHourAgo), Math.round(requestsPerDay * peakPart), random));
  times.push(...within(hourStart(now, badHourAgo), Math.ceil(requestsPerDay * badPart), random));
  return times.filter((time) => time <= now - durationMaxMs);
}

function timeOfDay(random: Random): number {
  let place = random() * rhythm.reduce((sum, each) => sum + each, 0);
  const hour = rhythm.findIndex((part) => {
    place -= part;
    return place < 0;
  });
  // The last seconds are left out: a request of one day must not end on the next.
  return Math.floor((Math.max(0, hour) + random() * 0.99) * hourMs);
}

function hourStart(now: number, hoursAgo: number): number {
  return (Math.floor(now / hourMs) - hoursAgo) * hourMs;
}

function within(startMs: number, count: number, random: Random): number[] {
  return Array.from({ length: count }, () => startMs + Math.floor(random() * 0.99 * hourMs));
}

/** How a request ended: its record's outcome, and what each backend that was called did. */
const endings = {
  completed: { outcome: 'completed', attempts: [{ backend: 'onprem-a', outcome: 'answered' }] },
  cancelled: {
    outcome: 'cancelled',
    attempts: [{ backend: 'onprem-b', outcome: 'stopped', cause: 'the client left', address: '10.0.3.12:8000' }],
  },
  exhausted: {
    ...{ outcome: 'failed', code: 'UPSTREAMS_EXHAUSTED', status: 503 },
    attempts: [
      { backend: 'onprem-a', outcome: 'failed', cause: 'connection refused', address: '10.0.3.11:8000' },
      { backend: 'onprem-b', outcome: 'failed', cause: 'no token within 30 s', address: '10.0.3.12:8000' },
      { backend: 'cloud', outcome: 'not_offered', cause: 'HTTP 401', address: 'api.example.com', status: 401 },
    ],
  },
} as const satisfies Record<string, PastEnding>;

type PastEnding = Pick<UsageRecord, 'outcome' | 'code' | 'status'> & { attempts: readonly Omit<UsageAttempt, 'run'>[] };

/** All that differs between the requests of a caller. Times are in milliseconds. */
type PastRequest = {
  admittedMs: number;
  ending: keyof typeof endings;
  by: PastModel;
  promptTokens: number;
  completionTokens: number;
  cachedTokens: number;
  queueWaitMs: number;
  firstTokenMs: number;
  durationMs: number;
};

function requestAt(
  { models }: PastCaller,
  admittedMs: number,
  { now, random }: { now: number; random: Random },
): PastRequest {
  const badMs = hourStart(now, badHourAgo);
  const isBad = admittedMs >= badMs && admittedMs < badMs + hourMs;
  const chance = random();
  const ending = chance < (isBad ? 0.65 : 0.01) ? 'exhausted' : chance > 0.98 ? 'cancelled' : 'completed';
  const by = random.oneOf(models);
  const whole = (from: number, to: number) => Math.floor(random.between(from, to));
  const promptTokens = whole(20, 1_500);
  const completion = whole(10, ending === 'cancelled' ? 60 : 700);
  const firstTokenMs = whole(80, 400) * (isBad ? 4 : 1);
  return {
    ...{ admittedMs, ending, by, promptTokens },
    completionTokens: ending === 'exhausted' || by.endpoint === '/v1/embeddings' ? 0 : completion,
    cachedTokens: ending === 'completed' && random() < 0.3 ? Math.floor(promptTokens / 2) : 0,
    ...{ queueWaitMs: whole(1, 20), firstTokenMs, durationMs: firstTokenMs + whole(300, 7_000) },
  };
}

type Imports = { caller: PastCaller; tokens: number; from: number; to: number; random: Random };

/** Large requests at equal distances that use these tokens together, fewer of them on weekends. */
function importsOf({ caller, tokens, from, to, random }: Imports): PastRequest[] {
  const [by] = caller.models;
  if (tokens <= 0 || by === undefined || to - durationMaxMs <= from) return [];
  const count = Math.max(12, Math.ceil(tokens / importTokens));
  const step = (to - durationMaxMs - from) / count;
  const times = Array.from({ length: count }, (_, index) => Math.floor(from + index * step));
  const weights = times.map((time) => random.between(0.4, 1.6) * (isWeekend(time) ? weekendPart : 1));
  const total = weights.reduce((sum, each) => sum + each, 0);
  let left = tokens;
  return times.map((admittedMs, index) => {
    const share = Math.floor((tokens * (weights[index] ?? 0)) / total);
    const promptTokens = index === count - 1 ? left : share;
    left -= promptTokens;
    return {
      ...{ admittedMs, ending: 'completed' as const, by, promptTokens },
      ...{ completionTokens: 0, cachedTokens: 0, queueWaitMs: 3, firstTokenMs: 150, durationMs: 900 },
    };
  });
}

function isWeekend(time: number): boolean {
  return [0, 6].includes(new Date(time).getUTCDay());
}

function chargedOf({ ending, promptTokens, completionTokens }: PastRequest): number {
  return ending === 'exhausted' ? 0 : promptTokens + completionTokens;
}

function endOf({ admittedMs, queueWaitMs, durationMs }: PastRequest): number {
  return admittedMs + queueWaitMs + durationMs;
}

/** The record that a worker would have written. */
function recordOf({ account, keyId, plan }: PastCaller, request: PastRequest, number: number): UsageRecord {
  const { admittedMs, by, ending, promptTokens, completionTokens, cachedTokens } = request;
  const { queueWaitMs, firstTokenMs, durationMs } = request;
  const { attempts, ...ended } = endings[ending];
  const admittedAt = new Date(admittedMs);
  const month = admittedAt.toISOString().slice(0, 7);
  return {
    ...{ account, keyId, plan, ...by, ...ended, month, admittedAt },
    requestId: requestIdOf(`${account} ${keyId} ${month} ${number}`, admittedAt),
    batch: null,
    settledAt: new Date(endOf(request)),
    runs: 1,
    attempts: attempts.map((attempt) => ({ run: 1, ...attempt, durationMs: Math.floor(durationMs / attempts.length) })),
    ...{ promptTokens, completionTokens, cachedTokens, counted: 'reported' as const },
    chargedTokens: chargedOf(request),
    ...{ queueWaitMs, firstTokenMs: ending === 'exhausted' ? null : firstTokenMs, durationMs },
    overage: false,
    entry: entryOf(`${endOf(request)}-${number}`),
  };
}

const idLetters = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

/** As a request of the service has it, and the same each time. */
function requestIdOf(text: string, at: Date): string {
  const bytes = createHash('sha256').update(text).digest().subarray(0, 16);
  return `req_${encodeTime(at.getTime())}${Array.from(bytes, (byte) => idLetters[byte % idLetters.length]).join('')}`;
}
