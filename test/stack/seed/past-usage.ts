import { entryOf } from '../../../shared/jobs/usage-outbox.ts';
import type { UsageRecord } from '../../../shared/store/usage/usage-record.ts';
import { type Random, seededRandom } from '../../support/random.ts';

type Caller = { account: string; keyId: string; plan: string; models: readonly PastModel[]; requestsPerDay: number };
export type PastModel = { model: string; tier: string };

const outcomes = ['completed', 'failed', 'cancelled'] as const;
const attemptOutcomes = { completed: 'answered', failed: 'failed', cancelled: 'stopped' };
const dayMs = 86_400_000;

/**
 * A month of usage records as workers write them, in order of their outbox entries. The records and ids are the same each time for the
 * same account and month. `month` is `YYYY-MM`, in UTC.
 */
export function pastUsage(caller: Caller, month: string): UsageRecord[] {
  const random = seededRandom(
    [...`${caller.account} ${month}`].reduce((sum, sign) => sum * 31 + sign.charCodeAt(0), 7),
  );
  return timesOf(month, caller.requestsPerDay, random).map((admittedMs, index) => ({
    ...recordOf(caller, admittedMs, random),
    requestId: `seed-${caller.account}-${month}-${index + 1}`,
    month,
  }));
}

/** When requests were admitted, in order: fewer on weekends, in working hours, and none so late that it ends on the next day. */
function timesOf(month: string, requestsPerDay: number, random: Random): number[] {
  const [firstMs, endMs] = [Date.parse(`${month}-01T00:00:00Z`), startOfNext(month)];
  const times: number[] = [];
  for (let dayStartMs = firstMs; dayStartMs < endMs; dayStartMs += dayMs) {
    const isWeekend = [0, 6].includes(new Date(dayStartMs).getUTCDay());
    const count = Math.round(requestsPerDay * random.between(0.5, 1.5) * (isWeekend ? 0.2 : 1));
    for (let each = 0; each < count; each += 1) times.push(Math.floor(dayStartMs + dayMs * random.between(0.3, 0.8)));
  }
  return times.sort((one, other) => one - other);
}

function startOfNext(month: string): number {
  const first = new Date(`${month}-01T00:00:00Z`);
  return first.setUTCMonth(first.getUTCMonth() + 1);
}

function recordOf({ account, keyId, plan, models }: Caller, admittedMs: number, random: Random) {
  const { model, tier } = random.oneOf(models);
  const outcome = random() < 0.94 ? 'completed' : random.oneOf(outcomes);
  const whole = (from: number, to: number) => Math.floor(random.between(from, to));
  const [queueWaitMs, firstTokenMs, durationMs] = [whole(1, 20), whole(80, 400), whole(500, 8_000)];
  const promptTokens = whole(20, 1_500);
  const completionTokens = outcome === 'failed' ? 0 : whole(10, outcome === 'cancelled' ? 60 : 700);
  const settledMs = admittedMs + queueWaitMs + durationMs;
  return {
    ...{ account, keyId, plan, model, tier, outcome },
    endpoint: '/v1/chat/completions',
    batch: null,
    admittedAt: new Date(admittedMs),
    settledAt: new Date(settledMs),
    runs: 1,
    attempts: [{ run: 1, backend: 'onprem-a', outcome: attemptOutcomes[outcome], durationMs }],
    ...{ promptTokens, completionTokens, cachedTokens: 0, counted: 'reported' as const },
    chargedTokens: outcome === 'failed' ? 0 : promptTokens + completionTokens,
    ...{ queueWaitMs, firstTokenMs: outcome === 'failed' ? null : firstTokenMs, durationMs },
    overage: false,
    entry: entryOf(`${admittedMs}-0`),
  };
}
