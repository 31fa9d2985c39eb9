import type { Lane } from '../../shared/lane.ts';
import type { PlanFile } from '../../shared/process/plan-file.ts';
import { type BackendUse, batchCallsMax, type Share } from '../shares/renew-shares.ts';
import { type BackendHealth, createBackendHealth } from './backend-health.ts';
import type { BreakerState } from './breaker.ts';
import { type Candidate, type Choice, chooseBackend } from './choose-backend.ts';
import { createReservation, type Reservation, type Slot } from './reservation.ts';
import { createWaitingJobs } from './waiting-jobs.ts';

/** `refused`: no backend of the model is to be called. `full`: none of those that are has room. */
export type Reserved = { outcome: 'reserved'; reservation: Reservation } | { outcome: 'refused' | 'full' };

/** `late`: there was none for as long as it may wait, or it was aborted. */
export type SlotAnswer = { outcome: 'slot'; slot: Slot } | { outcome: 'refused' | 'late' };

export type Ask = {
  model: string;
  /** Where the job waited: a line of a batch gets only what no client asks for. */
  lane: Lane;
  /** Backends that were tried in this pass. */
  tried: ReadonlySet<string>;
  /** How long a full backend may be waited for; 0: not at all. */
  waitMs: number;
  signal: AbortSignal;
};

/** How a model stands with one of its backends. */
export type BreakerStatus = { model: string; backend: string; breaker: Exclude<BreakerState, 'probing'> };

export interface BackendSlots extends Disposable {
  /** The backend to call next, before the job is taken that will call it. Jobs in hand that wait for a slot come first. */
  reserve(model: string, lane: Lane): Reserved;
  /** Whether a job could be taken now: one finds a slot, or none is to be found. */
  hasSlot(model: string, lane: Lane): boolean;
  /** The backend to call next for a job in hand, at once or, if all are full, in the order of asking. */
  take(ask: Ask): Promise<SlotAnswer>;
  /** The backends of a model, as the plan file has them. */
  namesOf(model: string): string[];
  /** Whether each backend of the model is one that is not to be called. */
  allRefuse(model: string): boolean;
  breakerStatuses(): BreakerStatus[];
  /** Of each backend with a limit of the whole fleet, what is in use here and needed. `isLeaving`: only for jobs in hand. */
  uses(isLeaving: boolean): BackendUse[];
  /** Calls in flight, `requests_at_once`, and this worker's share of that if it is of the whole fleet, by backend. */
  load(): { backend: string; calls: number; limit: number | undefined; share: number | undefined }[];
  /** Jobs in hand that wait for a slot, because another backend has failed. */
  waiting(): number;
  /** Shares have changed. */
  sharesChanged(): void;
}

/** For so long after a client has asked a backend, lines of batches leave room for the next one. */
const askedForMs = 5_000;
/** Jobs wait for a backend if it was found full within this time. */
const hungryForMs = 1_000;

/** What this process knows of its backends: their calls in flight, and for each model that they serve how they answered it. */
export function createBackendSlots(deps: {
  planFile: Pick<PlanFile, 'models' | 'backends' | 'timeouts'>;
  pools: readonly string[];
  /** What this worker may have of a backend whose limit is the fleet's. */
  shareOf: (backend: string) => Share;
  /** False where shares have expired. */
  areSharesValid?: () => boolean;
  /** Jobs wait for a backend that has no room here. */
  onHungry?: () => void;
  /** A slot may be free now. */
  onChange?: () => void;
  onBreaker?: (status: BreakerStatus) => void;
  random?: () => number;
  now?: () => number;
}): BackendSlots {
  const { planFile, pools, shareOf, onHungry = () => {}, onChange = () => {}, onBreaker = () => {} } = deps;
  const { random = Math.random, now = () => performance.now(), areSharesValid = () => true } = deps;
  const inFlight = new Map<string, number>();
  /** When a client last asked a backend, and when a backend was last found full. */
  const askedAt = new Map<string, number>();
  const hungryAt = new Map<string, number>();
  const { firstTokenMs } = planFile.timeouts;
  const waiting = createWaitingJobs<Ask, SlotAnswer>({
    answer,
    alike: ({ model, tried }) => [model, ...[...tried].toSorted()].join(' '),
    late: { outcome: 'late' },
  });
  const served = new Map<string, Map<string, BackendHealth>>();
  for (const [model, { pool, backends }] of Object.entries(planFile.models)) {
    if (!pools.includes(pool)) continue;
    served.set(model, new Map([...new Set(backends)].map((name) => [name, serve(model, name)])));
  }
  const called = new Set([...served.values()].flatMap((backends) => [...backends.keys()]));
  const ofSeveralPools = backendsOfSeveralPools(planFile);

  function serve(model: string, backend: string): BackendHealth {
    const report = (state: BreakerState) => {
      onBreaker({ model, backend, breaker: shown(state) });
      change();
    };
    return createBackendHealth({ onBreaker: report, probeMs: firstTokenMs, random, now });
  }

  function change(): void {
    waiting.serve();
    onChange();
  }

  const callsOf = (name: string) => inFlight.get(name) ?? 0;
  const isAsked = (name: string) => now() - (askedAt.get(name) ?? Number.NEGATIVE_INFINITY) < askedForMs;

  /** Undefined if it has none, or one of each worker. */
  function fleetLimitOf(name: string): number | undefined {
    const { requestsAtOnce, perWorker } = planFile.backends[name] ?? {};
    return perWorker ? undefined : requestsAtOnce;
  }

  function limitOf(name: string, lane: Lane): number {
    const { requestsAtOnce, perWorker } = planFile.backends[name] ?? {};
    if (requestsAtOnce === undefined) return Number.POSITIVE_INFINITY;
    if (!perWorker) return shareOf(name)[lane === 'batch' ? 'batchCalls' : 'calls'];
    return lane === 'batch' && isAsked(name) ? batchCallsMax(requestsAtOnce) : requestsAtOnce;
  }

  function candidatesOf(model: string, lane: Lane): Candidate[] {
    return [...(served.get(model) ?? [])].flatMap(([name, as]) => {
      const backend = planFile.backends[name];
      if (backend === undefined) return [];
      const load = { inFlight: callsOf(name), requestsAtOnce: limitOf(name, lane), firstTokenMs: as.firstTokenMs() };
      return [{ name, location: backend.location, refuses: as.refuses(), ...load }];
    });
  }

  function choose({ model, lane, tried }: Pick<Ask, 'model' | 'lane' | 'tried'>): Choice {
    const left = candidatesOf(model, lane).filter(({ name }) => !tried.has(name));
    noteFull(left);
    return chooseBackend(left, { lane, random });
  }

  function noteFull(candidates: readonly Candidate[]): void {
    const full = candidates.filter(
      ({ refuses, inFlight: calls, requestsAtOnce }) => !refuses && calls >= requestsAtOnce,
    );
    for (const { name } of full) hungryAt.set(name, now());
    if (full.length > 0) onHungry();
  }

  function answer(ask: Ask): SlotAnswer | undefined {
    const choice = choose(ask);
    if (choice.outcome === 'refused') return choice;
    if (choice.outcome === 'full') return undefined;
    const slot = reserveAt(choice.name, ask)?.use();
    return slot === undefined ? { outcome: 'refused' } : { outcome: 'slot', slot };
  }

  function reserveAt(name: string, { model, lane }: Pick<Ask, 'model' | 'lane'>): Reservation | undefined {
    const [backend, as] = [planFile.backends[name], served.get(model)?.get(name)];
    if (backend === undefined || as === undefined) return undefined;
    inFlight.set(name, callsOf(name) + 1);
    const mayCall = () => !as.refuses() && (fleetLimitOf(name) === undefined || areSharesValid());
    return createReservation({
      ...{ name, backend, as, mayCall },
      onUse() {
        if (lane === 'interactive') askedAt.set(name, now());
      },
      onFree() {
        inFlight.set(name, callsOf(name) - 1);
        change();
      },
    });
  }

  return {
    reserve(model, lane) {
      waiting.serve();
      const choice = choose({ model, lane, tried: new Set() });
      if (choice.outcome !== 'call') return choice;
      const reservation = reserveAt(choice.name, { model, lane });
      return reservation === undefined ? { outcome: 'refused' } : { outcome: 'reserved', reservation };
    },
    hasSlot: (model, lane) => chooseBackend(candidatesOf(model, lane), { lane, random }).outcome !== 'full',
    async take(ask) {
      if (ask.signal.aborted) return { outcome: 'late' };
      // Those that have waited go first, also if time has made the room.
      waiting.serve();
      const result = answer(ask);
      if (result !== undefined) return result;
      return ask.waitMs > 0 ? waiting.wait(ask) : { outcome: 'late' };
    },
    namesOf: (model) => [...(served.get(model)?.keys() ?? [])],
    allRefuse: (model) => candidatesOf(model, 'interactive').every(({ refuses }) => refuses),
    breakerStatuses: () =>
      [...served].flatMap(([model, backends]) =>
        [...backends].map(([backend, as]) => ({ model, backend, breaker: shown(as.breaker()) })),
      ),
    uses: (isLeaving) =>
      [...called].flatMap((backend) => {
        const limit = fleetLimitOf(backend);
        if (limit === undefined) return [];
        const isHungry = now() - (hungryAt.get(backend) ?? Number.NEGATIVE_INFINITY) < hungryForMs;
        const wants = isHungry && (!isLeaving || waiting.count() > 0);
        const need = wants ? 'wants' : isLeaving ? 'stops' : 'idle';
        const isOfSeveralPools = ofSeveralPools.has(backend);
        return [{ backend, limit, inFlight: callsOf(backend), need, isAsked: isAsked(backend), isOfSeveralPools }];
      }),
    load: () =>
      [...called].map((backend) => {
        const limit = planFile.backends[backend]?.requestsAtOnce;
        const share = fleetLimitOf(backend) === undefined ? undefined : shareOf(backend).calls;
        return { backend, calls: callsOf(backend), limit, share };
      }),
    waiting: waiting.count,
    sharesChanged: change,
    [Symbol.dispose]() {
      waiting[Symbol.dispose]();
      for (const backends of served.values()) for (const as of backends.values()) as[Symbol.dispose]();
    },
  };
}

/** Backends that models of more than one pool have. */
function backendsOfSeveralPools({ models }: Pick<PlanFile, 'models'>): ReadonlySet<string> {
  const ofPools = Map.groupBy(
    Object.values(models).flatMap(({ pool, backends }) => backends.map((backend) => ({ pool, backend }))),
    ({ backend }) => backend,
  );
  return new Set(
    [...ofPools].filter(([, uses]) => new Set(uses.map(({ pool }) => pool)).size > 1).map(([name]) => name),
  );
}

function shown(state: BreakerState): BreakerStatus['breaker'] {
  return state === 'probing' ? 'half-open' : state;
}
