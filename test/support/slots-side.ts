import type { ExecutionContext } from 'ava';
import { type PlanFile, parsePlanFile } from '../../shared/plan-file/plan-file.ts';
import { type Ask, createBackendSlots, type SlotAnswer } from '../../workers/backends/backend-slots.ts';
import type { Preference } from '../../workers/backends/prefer-backend.ts';
import type { Slot } from '../../workers/backends/reservation.ts';
import type { BreakerStatus } from '../../workers/backends/served-backends.ts';
import type { Share } from '../../workers/fleet-limits/renew-shares.ts';
import { planFileFor } from '../stack/plan.ts';
import { wholeLimits } from './whole-limits.ts';

function planOf({ requestsAtOnce, perWorker = false }: { requestsAtOnce?: number; perWorker?: boolean }): PlanFile {
  const room = requestsAtOnce === undefined ? {} : { requests_at_once: requestsAtOnce, per_worker: perWorker };
  const backends = {
    a: { url: 'http://127.0.0.1:1/v1', location: 'on-prem' as const, ...room },
    b: { url: 'http://127.0.0.1:2/v1', location: 'on-prem' as const, ...room },
    cloud: { url: 'http://127.0.0.1:3/v1', location: 'cloud' as const, ...room },
  };
  const models = { 'only-a': { tier: 'standard', pool: 'default', backends: ['a'] } };
  const parsed = parsePlanFile(planFileFor({ backends, models }));
  if ('issues' in parsed) throw new Error(JSON.stringify(parsed.issues));
  return parsed.planFile;
}

/** A plan file that a test changes. */
export type ChangedPlan = { -readonly [Key in keyof PlanFile]: PlanFile[Key] } & {
  models: Record<string, { backends: string[] }>;
  backends: Record<string, { url: string; weight?: number }>;
};

type Given = {
  requestsAtOnce?: number;
  perWorker?: boolean;
  shareOf?: (backend: string, unknown: Share) => Share;
  renewingShareOf?: (backend: string) => Share | undefined;
  callsElsewhere?: (backend: string) => number;
  areSharesValid?: () => boolean;
  contextOf?: (backend: string) => number | undefined;
  lacksKey?: (backend: string) => boolean;
  /** The result of a health test. */
  isWell?: () => boolean;
};

/** The slots of one worker, with two backends on-prem and one in a cloud, on a clock that the test sets. */
export function openSlotsSide(t: ExecutionContext, given: Given = {}) {
  let time = 0;
  const changes: BreakerStatus[] = [];
  const hungry: string[] = [];
  const missed: string[] = [];
  const preferences: Preference[] = [];
  let planFile = planOf(given);
  const slots = createBackendSlots({
    ...{ currentPlanFile: () => planFile, pools: () => ['default'], shareOf: given.shareOf ?? wholeLimits(planFile) },
    ...(given.renewingShareOf && { renewingShareOf: given.renewingShareOf }),
    ...(given.callsElsewhere && { callsElsewhere: given.callsElsewhere }),
    ...(given.areSharesValid && { areSharesValid: given.areSharesValid }),
    ...(given.lacksKey && { lacksKey: given.lacksKey }),
    ...(given.contextOf && { contextOf: given.contextOf }),
    test: async () => given.isWell?.() ?? true,
    onBreaker: (counters) => changes.push(counters),
    onPreferred: (preference) => preferences.push(preference),
    onMissed: (backend) => missed.push(backend),
    onHungry: (backends) => hungry.push(...backends),
    random: () => 0.5,
    now: () => time,
  });
  t.teardown(() => slots[Symbol.dispose]());
  const ask = (asked: Partial<Ask> = {}): Promise<SlotAnswer> =>
    slots.take({
      model: 'small-chat',
      lane: 'interactive',
      holder: 'user:a',
      tried: new Set(),
      promptTokensMin: 0,
      waitMs: 0,
      signal: new AbortController().signal,
      ...asked,
    });
  return {
    slots,
    /** The plan file is replaced by another one. */
    replace(next: Given, change: (plan: ChangedPlan) => void = () => {}) {
      const changed = structuredClone(planOf(next)) as ChangedPlan;
      change(changed);
      planFile = changed as PlanFile;
      slots.follow();
    },
    changes,
    hungry,
    missed,
    preferences,
    ask,
    async take(asked: Partial<Ask> = {}): Promise<Slot> {
      const taken = await ask(asked);
      if (taken.outcome !== 'slot') throw new Error(`no slot: ${taken.outcome}`);
      return taken.slot;
    },
    pass: (ms: number) => {
      time += ms;
    },
  };
}

export const waits = { waitMs: 600_000 };
