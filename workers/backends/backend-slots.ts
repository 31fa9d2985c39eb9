import type { Lane } from '../../shared/lane.ts';
import type { Backend, PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { BackendUse, Share } from '../shares/renew-shares.ts';
import { type BackendLoad, createBackendLoad } from './backend-load.ts';
import { type Candidate, type Choice, chooseBackend } from './choose-backend.ts';
import { createReservation, type Reservation, type Slot } from './reservation.ts';
import { type BreakerStatus, createServedBackends, type SeenHealth, type ServedBackends } from './served-backends.ts';
import { createWaitingJobs } from './waiting-jobs.ts';

/** `refused`: no backend of the model may be called. `full`: those that may be called have no room. */
export type Reserved = { outcome: 'reserved'; reservation: Reservation } | { outcome: 'refused' | 'full' };

/** `late`: there was no slot within the time to wait, or the signal was aborted. */
export type SlotAnswer = { outcome: 'slot'; slot: Slot } | { outcome: 'refused' | 'late' };

export type Ask = {
  model: string;
  /** The queue of the job. A line of a batch gets only what no request needs. */
  lane: Lane;
  /** Backends that were tried in this pass. */
  tried: ReadonlySet<string>;
  /** How long to wait for a full backend, in milliseconds; 0: not at all. */
  waitMs: number;
  signal: AbortSignal;
};

export interface BackendSlots extends Disposable {
  /**
   * Reserves the backend to call next, before the job is taken that will call it (contract.md#o2-slot-before-job). Jobs in progress that
   * wait for a slot come first.
   */
  reserve(model: string, lane: Lane): Reserved;
  /** Whether a job could be taken now: it finds a slot, or none of its backends may be called. */
  hasSlot(model: string, lane: Lane): boolean;
  /** Takes a slot for a job in progress: at once or, if all backends are full, in the order of asking. */
  take(ask: Ask): Promise<SlotAnswer>;
  /** The backends of a model, in the order of the plan file. */
  namesOf(model: string): string[];
  /** True if no backend of the model may be called. */
  allRefuse(model: string): boolean;
  breakerStatuses(): BreakerStatus[];
  seenHealth(): SeenHealth[];
  /** For each backend with a fleet limit, what is in use here and needed. `isLeaving`: only for jobs in progress. */
  uses(isLeaving: boolean): BackendUse[];
  load: BackendLoad['report'];
  /** The number of jobs in progress that wait for a slot, because another backend has failed. */
  waiting(): number;
  /** Shares have changed. */
  sharesChanged(): void;
  /** The backends that this process may call, by their names. */
  called(): ReadonlyMap<string, Backend>;
  /**
   * Takes over the current plan file. Calls in flight continue, also those of backends that have gone. Does not call `onChange`: the queues
   * follow next. A job taken before that could be of a model that has no backend here any more, and would fail.
   */
  follow(): void;
}

/** Chooses backends by the calls in flight of this process, and by their health for each model. */
export function createBackendSlots(deps: {
  currentPlanFile: () => Pick<PlanFile, 'models' | 'backends' | 'timeouts'>;
  pools: () => readonly string[];
  /** This worker's share of a backend with a fleet limit. */
  shareOf: (backend: string) => Share;
  /** False if shares have expired. */
  areSharesValid?: (backend: string) => boolean;
  /** Jobs wait for backends that have no room here. */
  onHungry?: (backends: readonly string[]) => void;
  /** A slot may be free now. */
  onChange?: () => void;
  onBreaker?: (status: BreakerStatus) => void;
  random?: () => number;
  now?: () => number;
}): BackendSlots {
  const { currentPlanFile, pools, shareOf, onHungry = () => {}, onChange = () => {}, onBreaker = () => {} } = deps;
  const { random = Math.random, now = () => performance.now(), areSharesValid = () => true } = deps;
  const waiting = createWaitingJobs<Ask, SlotAnswer>({
    answer,
    alike: ({ model, tried }) => [model, ...[...tried].toSorted()].join(' '),
    late: { outcome: 'late' },
  });
  const reportBreaker = (status: BreakerStatus) => {
    onBreaker(status);
    change();
  };
  const served = createServedBackends({ currentPlanFile, pools, onBreaker: reportBreaker, random, now });
  const load = createBackendLoad({ currentPlanFile, called: served.names, shareOf, now });
  const candidatesOf = createCandidates({ currentPlanFile, served, load });
  const reserveAt = createReserveAt({ currentPlanFile, served, load, areSharesValid, onFree: change });

  function change(): void {
    waiting.serve();
    onChange();
  }

  function choose({ model, lane, tried }: Pick<Ask, 'model' | 'lane' | 'tried'>): Choice {
    const left = candidatesOf(model, lane).filter(({ name }) => !tried.has(name));
    const full = load.noteFull(left);
    if (full.length > 0) onHungry(full);
    return chooseBackend(left, { lane, random });
  }

  function answer(ask: Ask): SlotAnswer | undefined {
    const choice = choose(ask);
    if (choice.outcome === 'refused') return choice;
    if (choice.outcome === 'full') return undefined;
    const slot = reserveAt(choice.name, ask)?.use();
    return slot === undefined ? { outcome: 'refused' } : { outcome: 'slot', slot };
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
      // Jobs that wait go first, also if room has come with time.
      waiting.serve();
      return answer(ask) ?? (ask.waitMs > 0 ? waiting.wait(ask) : { outcome: 'late' });
    },
    namesOf: (model) => [...served.ofModel(model).keys()],
    allRefuse: (model) => candidatesOf(model, 'interactive').every(({ refuses }) => refuses),
    ...{ breakerStatuses: served.breakerStatuses, seenHealth: served.seenHealth },
    uses: (isLeaving) => load.uses({ isLeaving, isWaiting: waiting.count() > 0 }),
    ...{ load: load.report, waiting: waiting.count, sharesChanged: change },
    called() {
      const { backends } = currentPlanFile();
      return new Map(Object.entries(backends).filter(([name]) => served.names().has(name)));
    },
    follow() {
      served.follow();
      waiting.serve();
    },
    [Symbol.dispose]() {
      waiting[Symbol.dispose]();
      served[Symbol.dispose]();
    },
  };
}

type Known = { currentPlanFile: () => Pick<PlanFile, 'backends'>; served: ServedBackends; load: BackendLoad };

function createCandidates({ currentPlanFile, served, load }: Known) {
  return function candidatesOf(model: string, lane: Lane): Candidate[] {
    return [...served.ofModel(model)].flatMap(([name, health]) => {
      const backend = currentPlanFile().backends[name];
      if (backend === undefined) return [];
      const { location } = backend;
      const [inFlight, requestsAtOnce] = [load.callsOf(name), load.limitOf(name, lane)];
      return [
        { name, location, refuses: health.refuses(), inFlight, requestsAtOnce, firstTokenMs: health.firstTokenMs() },
      ];
    });
  };
}

/** Reserves a slot at one backend. Undefined if the model does not have this backend. */
function createReserveAt(deps: Known & { areSharesValid: (backend: string) => boolean; onFree: () => void }) {
  const { currentPlanFile, served, load, areSharesValid, onFree } = deps;
  return function reserveAt(name: string, { model, lane }: Pick<Ask, 'model' | 'lane'>): Reservation | undefined {
    const [backend, health] = [currentPlanFile().backends[name], served.ofModel(model).get(name)];
    if (backend === undefined || health === undefined) return undefined;
    load.begin(name);
    return createReservation({
      ...{ name, backend, health },
      mayCall: () => !health.refuses() && (load.fleetLimitOf(name) === undefined || areSharesValid(name)),
      onUse() {
        if (lane === 'interactive') load.noteAsked(name);
      },
      onFree() {
        load.end(name);
        onFree();
      },
    });
  };
}
