import { ApiError, type BurstLimit, type ErrorCode, rateLimitExceeded } from '../../shared/errors.ts';
import type { MinuteCounts } from './minute-counts.ts';

/**
 * Looks up a secret that may have been guessed, for a subject: a network or an account. A subject with too many failed lookups within a
 * minute gets `rate_limit_exceeded`, without a lookup.
 */
export type LimitFailures = <Found>(subject: string, lookUp: () => Promise<Found>) => Promise<Found>;

/** By the type of the limit: the code with which a lookup fails, and the message for too many failures. */
const kinds = {
  // contract.md#l4-failed-authentication
  auth_failures: { failure: 'INVALID_KEY', message: 'Too many unknown API keys were sent from this network.' },
  // contract.md#j5-overage-and-top-up-codes
  code_failures: { failure: 'NOT_FOUND', message: 'This account has sent too many unknown top-up codes.' },
} as const satisfies Partial<Record<BurstLimit, { failure: ErrorCode; message: string }>>;

/** The lookups of one subject: how many run, and those that wait. */
type Line = { running: number; waiting: PromiseWithResolvers<void>[] };

/**
 * Runs only as many lookups at once as failures are left, because each of them may fail. Otherwise a client could start any number of
 * them before its first failure is counted (decisions.md#failed-lookups-counted-by-network). The others wait for a few milliseconds, in
 * order.
 */
export function createLimitFailures({
  kind,
  failures,
  perMinute,
}: {
  kind: keyof typeof kinds;
  failures: MinuteCounts;
  perMinute: number;
}): LimitFailures {
  const { failure, message } = kinds[kind];
  const lines = new Map<string, Line>();

  function enter(subject: string): Promise<void> {
    const line = lines.get(subject) ?? { running: 0, waiting: [] };
    lines.set(subject, line);
    const turn = Promise.withResolvers<void>();
    line.waiting.push(turn);
    advance(subject, line);
    return turn.promise;
  }

  function leave(subject: string): void {
    const line = lines.get(subject);
    if (line === undefined) throw new Error('a lookup ended that had not begun');
    line.running--;
    advance(subject, line);
  }

  function advance(subject: string, line: Line): void {
    const { count, leftMs } = failures.known(subject);
    for (let next = line.waiting[0]; next !== undefined; next = line.waiting[0]) {
      if (count < perMinute && count + line.running >= perMinute) break;
      line.waiting.shift();
      if (count >= perMinute) {
        next.reject(rateLimitExceeded(kind, `${message} Retry in ${leftMs} ms.`, leftMs));
      } else {
        line.running++;
        next.resolve();
      }
    }
    if (line.running === 0 && line.waiting.length === 0) lines.delete(subject);
  }

  return async function limitFailures(subject, lookUp) {
    await enter(subject);
    let counting: Promise<unknown> = Promise.resolve();
    try {
      return await lookUp();
    } catch (error) {
      if (error instanceof ApiError && error.code === failure) counting = failures.add(subject);
      throw error;
    } finally {
      // The client does not wait for the count, but the lookup counts as running until then.
      void counting.then(() => leave(subject));
    }
  };
}
