import { ApiError, rateLimitExceeded } from '../../shared/errors.ts';
import type { MinuteCounts } from './minute-counts.ts';

/**
 * Looks up a credential for a client of this network. A lookup that fails with `INVALID_KEY` counts as a failure. A network with too many
 * failures within a minute gets `rate_limit_exceeded`, without a lookup (contract.md#l4-failed-authentication).
 */
export type LimitAuthFailures = <Found>(network: string, lookUp: () => Promise<Found>) => Promise<Found>;

/** The lookups of one network: how many run, and those that wait. */
type Line = { running: number; waiting: PromiseWithResolvers<void>[] };

/**
 * Runs only as many lookups at once as failures are left, because each of them may fail. Otherwise a client could start any number of
 * them before its first failure is counted (decisions.md#failed-lookups-counted-by-network). The others wait for a few milliseconds, in
 * order.
 */
export function createLimitAuthFailures({
  failures,
  perMinute,
}: {
  failures: MinuteCounts;
  perMinute: number;
}): LimitAuthFailures {
  const lines = new Map<string, Line>();

  function enter(network: string): Promise<void> {
    const line = lines.get(network) ?? { running: 0, waiting: [] };
    lines.set(network, line);
    const turn = Promise.withResolvers<void>();
    line.waiting.push(turn);
    advance(network, line);
    return turn.promise;
  }

  function leave(network: string): void {
    const line = lines.get(network);
    if (line === undefined) throw new Error('a lookup ended that had not begun');
    line.running--;
    advance(network, line);
  }

  function advance(network: string, line: Line): void {
    const { count, leftMs } = failures.known(network);
    for (let next = line.waiting[0]; next !== undefined; next = line.waiting[0]) {
      if (count < perMinute && count + line.running >= perMinute) break;
      line.waiting.shift();
      if (count >= perMinute) {
        next.reject(tooManyFailures(leftMs));
      } else {
        line.running++;
        next.resolve();
      }
    }
    if (line.running === 0 && line.waiting.length === 0) lines.delete(network);
  }

  return async function limitAuthFailures(network, lookUp) {
    await enter(network);
    let counting: Promise<unknown> = Promise.resolve();
    try {
      return await lookUp();
    } catch (error) {
      if (error instanceof ApiError && error.code === 'INVALID_KEY') counting = failures.add(network);
      throw error;
    } finally {
      // The client does not wait for the count, but the lookup counts as running until then.
      void counting.then(() => leave(network));
    }
  };
}

function tooManyFailures(waitMs: number): ApiError {
  const message = `Too many unknown API keys were sent from this network. Retry in ${waitMs} ms.`;
  return rateLimitExceeded('auth_failures', message, waitMs);
}
