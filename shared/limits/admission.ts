import { createReadNumbers, intOf, wordOf, wordsOf } from '../redis/load-lua.ts';

/**
 * What a holder of limits has used, an account or a key of it: tokens of the month that are charged, reserved by requests in flight, and
 * (of an account) charged as overage, 0 if its month is neither limited nor shown; requests and tokens of the last minute, which will all
 * have left in `resetMs`; the requests of the day (UTC). `isCountOld`: the month of a key should be counted again.
 */
type HolderCounters = {
  chargedTokens: number;
  reservedTokens: number;
  overageTokens: number;
  lastMinute: LastMinute;
  dayRequests: number;
  isCountOld: boolean;
};

/**
 * The counters of an account by Redis's clock (`now`, milliseconds), in a month (`YYYY-MM`). `key`: those of the key that was asked for, if
 * it has limits of its own.
 */
export type LimitCounters = HolderCounters & { now: number; month: string; key?: HolderCounters & { id: string } };

type LastMinute = { requests: number; tokens: number; resetMs: number };

const accountLimits = ['quota', 'requests', 'tokens', 'day', 'concurrency', 'idempotency'] as const;
const keyLimits = ['key_quota', 'key_requests', 'key_tokens'] as const;
const limits = [...accountLimits, ...keyLimits] as const;

/**
 * The limit that a request would exceed; `concurrency` limits requests at once, `idempotency` the bytes of kept answers. Those of the
 * caller's key begin with `key_`.
 */
export type Limit = (typeof limits)[number];

/**
 * Milliseconds of Redis's clock. A job starts by `startBy` or not at all, and is over by `deadline`. `overage`: the month's allowance was
 * spent when the request was admitted.
 */
export type Admission = { admittedAt: number; startBy: number; deadline: number; overage: boolean };

/**
 * What became of the request that has claimed the same idempotency key (contract.md#h1-idempotency-keys). `mismatch`: its body was another
 * one. `kept`: its answer is kept. `lost`: it was charged, and its answer is not kept.
 */
const repeats = ['mismatch', 'running', 'kept', 'lost'] as const;
export type Repeat = (typeof repeats)[number];

/** The token under which a caller was read again after the answer `stale`. */
export type FillToken = { token: string };

/** `stale`: the caller may be outdated. Read it from the store, then ask again with this reading. */
type StaleAnswer = { outcome: 'stale'; reading: FillToken };
/** `cold`: this month is not counted in Redis, for the account or for its key `keyId`; seed it, then ask again. */
type ColdAnswer = { outcome: 'cold'; month: string; keyId?: string };

/** `now` is Redis's time, in milliseconds. */
export type LookAnswer = StaleAnswer | { outcome: 'current'; now: number };
/** The key of the request was claimed by the request `first`. */
export type RepeatAnswer = { outcome: 'repeated'; how: Repeat; first: string; counters: LimitCounters };
export type CountersAnswer = StaleAnswer | ColdAnswer | RepeatAnswer | { outcome: 'counters'; counters: LimitCounters };
/**
 * `expired`: the caller's key has ended. `full`: too much usage waits to be stored. `ended`: the request was ended before it could be
 * admitted. `inFlight`: how many requests the account has in the lane, including this one. `bytesReserved`: for the answer of a request
 * with an idempotency key, otherwise 0.
 */
export type AdmitAnswer =
  | StaleAnswer
  | ColdAnswer
  | { outcome: 'expired' }
  | { outcome: 'ended' }
  | RepeatAnswer
  | { outcome: 'full'; counters: LimitCounters }
  | { outcome: 'refused'; limit: Limit; waitMs: number; counters: LimitCounters }
  | { outcome: 'admitted'; admission: Admission; counters: LimitCounters; inFlight: number; bytesReserved: number };

export type AdmissionAnswer = AdmitAnswer | CountersAnswer | LookAnswer;

/**
 * The integers in answers of the admission scripts. `inFlight`: leases of the lane, including this one. `keep`: the bytes that are reserved
 * for the answer.
 */
export const answerNumbers = {
  admission: 'admittedAt startBy deadline overage inFlight keep',
  holder: 'chargedTokens reservedTokens overageTokens requests tokens resetMs dayRequests isCountOld',
} as const;
const [readAdmission, readHolder] = [
  createReadNumbers(answerNumbers.admission),
  createReadNumbers(answerNumbers.holder),
];
const wordsOfAdmission = answerNumbers.admission.split(' ').length;
/** With now, and the month or the id of the key. */
const wordsOfHolder = 2 + answerNumbers.holder.split(' ').length;

/** Parsed by hand, because it is read for each request and a schema takes many times as long. */
export function parseAdmission(answer: unknown): AdmissionAnswer {
  const [outcome, ...words] = wordsOf(answer);
  const [one, two] = words;
  switch (outcome) {
    case 'admitted': {
      const { inFlight, keep, overage, ...times } = readAdmission(words);
      const admission = { ...times, overage: overage === 1 };
      return {
        outcome,
        admission,
        inFlight,
        bytesReserved: keep,
        counters: countersOf(words.slice(wordsOfAdmission)),
      };
    }
    case 'refused':
      return { outcome, limit: oneOf(limits, one), waitMs: intOf(two), counters: countersOf(words.slice(2)) };
    case 'repeated':
      return { outcome, how: oneOf(repeats, one), first: wordOf(two), counters: countersOf(words.slice(2)) };
    case 'counters':
    case 'full':
      return { outcome, counters: countersOf(words) };
    case 'stale':
      return { outcome, reading: { token: words.join(' ') } }; // a token is an id and may contain spaces
    case 'cold':
      return { outcome, month: wordOf(one), ...(two !== undefined && { keyId: two }) };
    case 'current':
      return { outcome, now: intOf(one) };
    case 'expired':
    case 'ended':
      return { outcome };
    default:
      throw new Error('unknown answer from the admission script');
  }
}

function countersOf(words: readonly string[]): LimitCounters {
  const [now, month] = words;
  const ofKey = words.slice(wordsOfHolder);
  return {
    now: intOf(now),
    month: wordOf(month),
    ...holderCountersOf(words),
    ...(ofKey.length > 0 && { key: { id: wordOf(ofKey[1]), ...holderCountersOf(ofKey) } }),
  };
}

function holderCountersOf([_now, _name, ...words]: readonly string[]): HolderCounters {
  const { requests, tokens, resetMs, isCountOld, ...month } = readHolder(words);
  return { ...month, lastMinute: { requests, tokens, resetMs }, isCountOld: isCountOld === 1 };
}

function oneOf<Word extends string>(words: readonly Word[], value: unknown): Word {
  const found = words.find((word) => word === value);
  if (found === undefined) throw new Error('unknown word in the answer of the admission script');
  return found;
}
