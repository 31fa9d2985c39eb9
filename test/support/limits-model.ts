import type {
  Admission,
  AdmitAnswer,
  CountersAnswer,
  Limit,
  LimitCounters,
  RepeatAnswer,
} from '../../shared/limits/admission.ts';
import type { Allowance } from '../../shared/limits/admit.ts';
import type { ReleaseAnswer } from '../../shared/limits/release.ts';
import type { MonthTokens } from '../../shared/limits/seed.ts';
import type { Lane } from '../../shared/redis/keys.ts';
import type { Start } from '../../workers/requests/start-run.ts';
import { createClaimsModel, type ModelClaim, type ModelClaimEnd } from './claims-model.ts';
import { timeouts } from './limits-side.ts';
import { createMinuteModel } from './minute-model.ts';
import { monthOf, shiftMonth } from './month-names.ts';
import { createVersionModel } from './version-model.ts';

const rememberedMs = 3_600_000;
/** For the answer of an account that is no device. */
const reservedBytes = 1_048_576;
/** A line may be settled for a day past its deadline, and its lease needs no renewal. */
const lineGraceMs = 86_400_000;

export type ModelLease = Admission & {
  request: string;
  lane: Lane;
  tokens: number;
  month: string;
  endsAt: number;
  run: number;
  /** Not started yet, started, or streaming. */
  state: 'waits' | 'runs' | 'streams';
  /** Reserved for its answer. */
  keep: number;
  taken?: number;
  answer?: 'run' | 'late' | 'expired' | 'interrupted';
};

export type ModelRecord = Omit<Admission, 'startBy' | 'deadline'> & {
  request: string;
  tokens: number;
  month: string;
  runs: number;
  settledAt: number;
};

export type ModelAdmission = {
  request: string;
  lane: Lane;
  tokens: number;
  allowance: Allowance;
  version: number;
  token?: string | undefined;
  claim?: ModelClaim | undefined;
};

export type ModelSettlement = {
  request: string;
  run: number;
  settler: string;
  tokens: number;
  admission: Pick<Admission, 'admittedAt' | 'overage'>;
  claim?: ModelClaimEnd | undefined;
};

/**
 * The behavior of the scripts for one account, in plain lists: every charge and record is kept, and every answer is computed from all of
 * them. Valid as long as the clock is never a minute behind the latest time it has shown.
 */
export function createLimitsModel(startsAt: number, { keptMax }: { keptMax: number }) {
  let now = startsAt;
  let repeatsCounted = 0;
  const version = createVersionModel();
  const minute = createMinuteModel();
  const leases = new Map<string, ModelLease>();
  const ended = new Map<string, { run: number; settler: string } | 'released'>();
  const lost = new Map<string, number>();
  const claims = createClaimsModel({
    isRunning: (request) => leases.has(request),
    isLost: (request) => lost.has(request),
  });
  const records: ModelRecord[] = [];
  const counted = new Set<string>();
  /** Months with records written while the month was not counted. */
  const missed = new Set<string>();

  function tokensOf(month: string): MonthTokens {
    const recorded = records.filter((record) => record.month === month);
    return {
      chargedTokens: sum(recorded.map(({ tokens }) => tokens)),
      reservedTokens: sum([...leases.values()].map((lease) => (lease.month === month ? lease.tokens : 0))),
      overageTokens: sum(recorded.map(({ tokens, overage }) => (overage ? tokens : 0))),
    };
  }

  const isCounted = (month: string) => counted.has(month) || (counted.has(shiftMonth(month, -1)) && !missed.has(month));

  function counters(): LimitCounters {
    const at = minute.time(now);
    const month = tokensOf(monthOf(at));
    const lastMinute = { ...minute.counted(at), resetMs: minute.emptyIn(now) };
    const dayRequests = minute.requestsOfDay(at);
    return { now, month: monthOf(at), ...month, lastMinute, dayRequests, isCountOld: false };
  }

  function record(
    lease: Pick<ModelLease, 'request' | 'month' | 'admittedAt' | 'overage'>,
    tokens: number,
    runs: number,
  ) {
    const { request, month, admittedAt, overage } = lease;
    records.push({ request, month, admittedAt, overage, tokens, runs, settledAt: now });
  }

  const heldIn = (lane: Lane) => [...leases.values()].filter((lease) => lease.lane === lane);

  function endLeases(lane: Lane): number {
    const over = heldIn(lane)
      .filter(({ endsAt }) => endsAt <= now)
      .sort(byEnd);
    for (const lease of over) {
      leases.delete(lease.request);
      minute.correct(lease.request, { tokens: 0 });
      record(lease, 0, lease.run);
      lost.set(lease.request, Math.max(lease.deadline, now) + rememberedMs);
    }
    if (over.length > 0) for (const [request, until] of lost) if (until <= now) lost.delete(request);
    return over.length;
  }

  function refusal(
    { lane, tokens, allowance, claim }: ModelAdmission,
    isQuotaSpent: boolean,
  ): { limit: Limit; waitMs: number } | undefined {
    if (isQuotaSpent) return { limit: 'quota', waitMs: 0 };
    const at = minute.time(now);
    const midnight = new Date(at).setUTCHours(24, 0, 0, 0);
    const { requestsPerMinute, tokensPerMinute, requestsPerDay, requestsAtOnce } = allowance;
    const waits: [Limit, number][] = [
      ['requests', minute.waitFor({ requests: 1, tokens: 0 }, { requests: requestsPerMinute }, now)],
      ['tokens', minute.waitFor({ requests: 0, tokens }, { tokens: tokensPerMinute }, now)],
      ['day', minute.requestsOfDay(at) >= (requestsPerDay ?? Number.POSITIVE_INFINITY) ? midnight - now : 0],
      ['concurrency', heldIn(lane).length >= (requestsAtOnce ?? Number.POSITIVE_INFINITY) ? 1_000 : 0],
      ['idempotency', claim === undefined ? 0 : waitForRoom()],
    ];
    const waitMs = Math.max(...waits.map(([, ms]) => ms));
    const longest = waits.find(([, ms]) => ms === waitMs);
    return longest === undefined || waitMs === 0 ? undefined : { limit: longest[0], waitMs };
  }

  const keeping = () => sum(heldIn('interactive').map(({ keep }) => keep));

  function waitForRoom(): number {
    const over = claims.bytesKept() + keeping() + reservedBytes - keptMax;
    if (over <= 0) return 0;
    return keeping() > 0 ? 1_000 : claims.waitFor(over, now);
  }

  /** A repeat that is not free is a request of the minute and the day. */
  function repeat(asked: ModelAdmission, repeated: Omit<RepeatAnswer, 'outcome' | 'counters'>): AdmitAnswer {
    const { requestsPerMinute, requestsPerDay, overageEnabled } = asked.allowance;
    const counted = {
      ...asked,
      tokens: 0,
      claim: undefined,
      allowance: { requestsPerMinute, requestsPerDay, overageEnabled },
    };
    const refused = refusal(counted, false);
    if (refused !== undefined) return { outcome: 'refused', ...refused, counters: counters() };
    beginMonth();
    repeatsCounted += 1;
    minute.charge(`a repeat by ${asked.request}`, { at: minute.time(now), requests: 1, tokens: 0 });
    return { outcome: 'repeated', ...repeated, counters: counters() };
  }

  function beginMonth(): void {
    const month = monthOf(minute.time(now));
    if (counted.has(month)) return;
    counted.add(month);
    for (const months of [counted, missed])
      for (const other of [...months]) if (other < shiftMonth(month, -1)) months.delete(other);
  }

  function charge({ request, lane, tokens, claim }: ModelAdmission, isSpent: boolean): ModelLease {
    const at = minute.time(now);
    const month = monthOf(at);
    beginMonth();
    if (lane === 'interactive') minute.charge(request, { at, requests: 1, tokens });
    const [startBy, deadline] = [at + timeouts.queueMs, at + timeouts.requestMs];
    const times = { admittedAt: at, startBy, deadline, endsAt: startBy + 30_000 };
    const keep = claim === undefined ? 0 : reservedBytes;
    const lease: ModelLease = {
      request,
      lane,
      tokens,
      month,
      overage: isSpent,
      ...times,
      run: 0,
      state: 'waits',
      keep,
    };
    leases.set(request, lease);
    return lease;
  }

  function admitted({ lane, admittedAt, startBy, deadline, overage, keep }: ModelLease): AdmitAnswer {
    return {
      outcome: 'admitted',
      admission: { admittedAt, startBy, deadline, overage },
      counters: counters(),
      inFlight: heldIn(lane).length,
      bytesReserved: keep,
    };
  }

  return {
    setTime(nowMs: number): void {
      now = nowMs;
    },
    minute,
    claims,
    keeping,
    repeatsCounted: () => repeatsCounted,
    leases: leases as ReadonlyMap<string, ModelLease>,
    records: records as readonly ModelRecord[],
    tokensOf,
    isBegun: (month: string) => counted.has(month),
    forgetVersion: version.forget,
    count(month: string): void {
      counted.add(month);
      missed.delete(month);
    },
    forgetMonths(): void {
      counted.clear();
      missed.clear();
    },
    endLeases,

    readCounters(look: Omit<ModelAdmission, 'lane' | 'tokens' | 'allowance'>): CountersAnswer | RepeatAnswer {
      const overtaken = version.stale(look);
      if (overtaken !== undefined) return overtaken;
      const month = monthOf(minute.time(now));
      if (!isCounted(month)) return { outcome: 'cold', month };
      const { isFree, ...of } = claims.repeated(look.request, look.claim) ?? { isFree: false };
      return isFree && 'how' in of
        ? { outcome: 'repeated', ...of, counters: counters() }
        : { outcome: 'counters', counters: counters() };
    },

    admit(asked: ModelAdmission): AdmitAnswer {
      const overtaken = version.stale(asked);
      if (overtaken !== undefined) return overtaken;
      if (ended.has(asked.request) || lost.has(asked.request)) return { outcome: 'ended' };
      const month = monthOf(minute.time(now));
      if (!isCounted(month)) return { outcome: 'cold', month };
      const repeated = claims.repeated(asked.request, asked.claim);
      if (repeated !== undefined) {
        const { isFree, ...of } = repeated;
        return isFree ? { outcome: 'repeated', ...of, counters: counters() } : repeat(asked, of);
      }
      if (asked.claim !== undefined) claims.removeExpired(now);
      const held = leases.get(asked.request);
      if (held !== undefined) return admitted(held);
      const { tokensPerMonth = Number.POSITIVE_INFINITY, topUp } = asked.allowance;
      const { chargedTokens, reservedTokens, overageTokens } = tokensOf(month);
      const beyond = chargedTokens + reservedTokens - tokensPerMonth - (topUp?.month === month ? topUp.tokens : 0);
      const isSpent = beyond >= 0;
      const { overageEnabled, overageTokensPerMonth = Number.POSITIVE_INFINITY } = asked.allowance;
      const overageMax = overageEnabled ? overageTokensPerMonth : 0;
      const refused = refusal(asked, isSpent && Math.max(beyond, overageTokens) >= overageMax);
      if (refused !== undefined) return { outcome: 'refused', ...refused, counters: counters() };
      const lease = charge(asked, isSpent);
      if (asked.claim !== undefined) claims.claim(asked.request, asked.claim, now);
      return admitted(lease);
    },

    start(request: string, taken: number): Start {
      const lease = leases.get(request);
      if (lease === undefined) {
        const end = ended.get(request);
        const isSettled = end !== undefined && end !== 'released';
        return isSettled ? { outcome: 'settled', run: end.run + 1 } : { outcome: 'gone', run: 1 };
      }
      if (lease.taken !== undefined && taken < lease.taken) return { outcome: 'superseded', run: lease.run };
      if (lease.taken !== taken) {
        Object.assign(lease, { taken, run: lease.run + 1 });
        if (lease.state === 'streams') lease.answer = 'interrupted';
        else if (now >= lease.deadline) lease.answer = 'expired';
        else if (lease.state === 'waits' && now > lease.startBy) lease.answer = 'late';
        else Object.assign(lease, { state: 'runs', answer: 'run' });
        if (lease.answer === 'run')
          lease.endsAt = lease.lane === 'batch' ? lease.deadline + lineGraceMs : Math.min(lease.deadline, now) + 60_000;
        else if (lease.answer === 'interrupted') lease.endsAt = Math.min(lease.endsAt, now + 30_000);
      }
      const { run, answer = 'run' } = lease;
      return answer === 'run'
        ? { outcome: 'run', run, now, remainingMs: lease.deadline - now }
        : { outcome: answer, run, now };
    },

    renew(request: string, lifeMs: number): void {
      const lease = leases.get(request);
      if (lease?.lane === 'interactive') lease.endsAt = Math.max(lease.endsAt, now + lifeMs);
    },

    markStreaming(request: string, run: number): void {
      const lease = leases.get(request);
      if (lease?.lane === 'interactive' && lease.run === run) lease.state = 'streams';
    },

    settle({ request, run, settler, tokens, admission, claim }: ModelSettlement): boolean {
      const end = ended.get(request);
      if (end !== undefined && end !== 'released') return end.run === run && end.settler === settler;
      if (lost.has(request)) return false;
      const lease = leases.get(request);
      if (lease !== undefined && lease.run !== run) return false;
      if (lease !== undefined) minute.correct(request, { tokens });
      leases.delete(request);
      const kept = lease ?? { request, month: monthOf(admission.admittedAt), ...admission };
      record(kept, tokens, run);
      if (!counted.has(kept.month) && tokens > 0) missed.add(kept.month);
      ended.set(request, { run, settler });
      claims.settle(request, claim, { now, ...(lease && { reserved: lease.keep }) });
      return true;
    },

    release(
      request: string,
      { run, claim }: { run?: number | 'any' | undefined; claim?: ModelClaim | undefined },
    ): ReleaseAnswer {
      const end = ended.get(request);
      if (end !== undefined) return end === 'released' ? 'released' : 'ended';
      if (lost.has(request)) return 'ended';
      const { run: latest = 0 } = leases.get(request) ?? {};
      if (latest > 0 && run !== 'any' && run !== latest) return 'started';
      if (leases.delete(request)) minute.correct(request, { requests: 0, tokens: 0 });
      ended.set(request, 'released');
      claims.release(request, claim);
      return 'released';
    },
  };
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

/** Redis breaks a tie by the bytes of the member. */
function byEnd(one: ModelLease, other: ModelLease): number {
  return one.endsAt - other.endsAt || (one.request < other.request ? -1 : 1);
}
