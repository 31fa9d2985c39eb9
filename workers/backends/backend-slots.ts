import type { Affinity } from '../../shared/endpoints/definition/endpoint.ts';
import type { Backend, PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Lane } from '../../shared/redis/keys.ts';
import type { BackendUse, Share } from '../fleet-limits/renew-shares.ts';
import { type BackendLoad, createBackendLoad } from './backend-load.ts';
import { probeAfterMs } from './breaker.ts';
import { type Candidate, type Choice, chooseBackend, hasRoom, isHeldBack } from './choose-backend.ts';
import { createPauses, type Pauses } from './pauses.ts';
import type { Preference } from './prefer-backend.ts';
import { createPreferredSlots, hasKeys } from './preferred-slots.ts';
import { createReserveAt, type Reservation, type Slot } from './reservation.ts';
import { type BreakerStatus, createServedBackends, type SeenHealth, type ServedBackends } from './served-backends.ts';
import { createWaitingJobs } from './waiting-jobs.ts';

/** What a request asks for. */
export type Ask = {
  model: string;
  /** The queue of the job. A line of a batch gets only what no request needs. */
  lane: Lane;
  /** The account whose request it is; all devices are one. */
  holder: string;
  /** Backends that were tried in this pass. */
  tried: ReadonlySet<string>;
  /** Only backends there, or any. */
  only?: Backend['location'] | undefined;
  /** Lower bound of the tokens of the prompt: a backend with a smaller context is not asked. */
  promptTokensMin: number;
  /** Estimated tokens of the prompt. */
  promptTokens?: number;
  /** How long to wait for a full backend, in milliseconds; 0: not at all. */
  waitMs: number;
  signal: AbortSignal;
  /** What it has in common with requests that should go to the same backend. */
  affinity?: Affinity | undefined;
};

/** `refused`: no backend of the model may be called. `full`: those that may be called have no room. */
export type ReserveOutcome = { outcome: 'reserved'; reservation: Reservation } | { outcome: 'refused' | 'full' };

/** `late`: there was no slot within the time to wait, or the signal was aborted. */
export type SlotAnswer = { outcome: 'slot'; slot: Slot } | { outcome: 'refused' | 'late' };

export interface BackendSlots extends Disposable {
  /**
   * Reserves the backend to call next, before the job is taken that will call it (contract.md#o2-slot-before-job). Jobs in progress that
   * wait for a slot come first.
   */
  reserve(model: string, lane: Lane): ReserveOutcome;
  /** Whether a job could be taken now: it finds a slot, or none of its backends may be called. */
  hasSlot(model: string, lane: Lane): boolean;
  /**
   * Takes a slot for a job in progress: the reserved one if the job may use it and no other is better for it, else at once or, if all
   * backends are full, in the order of asking.
   */
  take(ask: Ask, reservation?: Reservation): Promise<SlotAnswer>;
  /** The context of a backend in tokens, if it is known. */
  contextOf(backend: string): number | undefined;
  /** Milliseconds until the first backend of the model may be called. */
  callableInMs(model: string): number;
  /** Why backends are not called for a while. */
  pauses: Pick<Pauses, 'of' | 'all' | 'merge' | 'takeNews' | 'keepNews' | 'setByOperator'>;
  /** The backends of a model, in the order of the plan file. */
  namesOf(model: string): string[];
  /** True if no backend of the model may be called. */
  allRefuse(model: string): boolean;
  breakerStatuses(): BreakerStatus[];
  seenHealth(): SeenHealth[];
  /** For each backend with a fleet limit, what is in use here and needed. `isLeaving`: only for jobs in progress. */
  uses(isLeaving: boolean): BackendUse[];
  load: BackendLoad['report'];
  /** The number of jobs in progress that wait for a slot, because a backend has failed, was busy or loads its model. */
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
  shareOf: (backend: string, unknown: Share) => Share;
  /** The share that is being renewed; undefined if none is. */
  renewingShareOf?: (backend: string) => Share | undefined;
  /** Calls of other workers in flight there. */
  callsElsewhere?: (backend: string) => number;
  /** False if shares have expired. */
  areSharesValid?: (backend: string) => boolean;
  /** The context of a backend in tokens, if it is known. */
  contextOf?: (backend: string) => number | undefined;
  /** Whether this worker does not have the API key of the backend. */
  lacksKey?: (backend: string) => boolean;
  /** Asks a backend for its health: false if that fails. */
  test?: (backend: string) => Promise<boolean>;
  /** Jobs wait for backends that have no room here. */
  onHungry?: (backends: readonly string[]) => void;
  /** A request would have called this backend with a larger share of it, and the fleet has room there. */
  onMissed?: (backend: string) => void;
  /** A slot may be free now. */
  onChange?: () => void;
  onBreaker?: (status: BreakerStatus) => void;
  /** What the keys of a request came to, before its call. */
  onPreferred?: (preference: Preference, model: string) => void;
  random?: () => number;
  now?: () => number;
}): BackendSlots {
  const { currentPlanFile, pools, shareOf, onHungry = () => {}, onChange = () => {}, onBreaker = () => {} } = deps;
  const { random = Math.random, now = () => performance.now(), areSharesValid = () => true } = deps;
  const { contextOf = () => undefined, lacksKey = () => false, test = async () => true } = deps;
  const { callsElsewhere = () => 0, renewingShareOf = () => undefined } = deps;
  const { onPreferred = () => {}, onMissed = () => {} } = deps;
  const waiting = createWaitingJobs<Ask, SlotAnswer>({
    answer,
    late: { outcome: 'late' },
    alike: (ask) => JSON.stringify([ask.model, candidatesOf(ask).map((each) => [each.name, hasRoom(each)])]),
    isHeldBack: (ask) => candidatesOf(ask).some(isHeldBack),
  });
  const served = createServedBackends({
    currentPlanFile,
    pools,
    test,
    random,
    now,
    onLooked: () => change(),
    onBreaker(status) {
      onBreaker(status);
      change();
    },
  });
  const pauses = createPauses({ now, lacksKey, called: served.names, onNews: (backend) => onHungry([backend]) });
  const shares = { shareOf, renewingShareOf, callsElsewhere };
  const load = createBackendLoad({ currentPlanFile, called: served.names, ...shares, now });
  const parts = { currentPlanFile, served, load, pauses, contextOf };
  const candidatesOf = createCandidates(parts);
  const reserveAt = createReserveAt({ ...parts, areSharesValid, onFree: change });
  const choose = createChoose({ candidatesOf, load, lookAgain: served.lookAgain, onHungry, random });
  const preferred = createPreferredSlots({ candidatesOf, reserveAt, onMissed, onPreferred, now });

  /** Without a name: at any backend. */
  function change(backend?: string): void {
    preferred.changed(backend);
    waiting.serve();
    onChange();
  }

  function answer(ask: Ask): SlotAnswer | undefined {
    const choice = choose(ask);
    if (choice.outcome === 'refused') return choice;
    if (choice.outcome === 'full') return undefined;
    const moved = preferred.take(ask);
    if (moved.outcome === 'gone') return { outcome: 'refused' };
    const slot = moved.outcome === 'moved' ? moved.slot : reserveAt(choice.name, ask)?.use(ask.holder);
    return slot === undefined ? { outcome: 'refused' } : { outcome: 'slot', slot };
  }

  return {
    reserve(model, lane) {
      waiting.serve();
      const choice = choose({ model, lane });
      if (choice.outcome !== 'call') return choice;
      const reservation = reserveAt(choice.name, { model, lane });
      return reservation === undefined ? { outcome: 'refused' } : { outcome: 'reserved', reservation };
    },
    hasSlot: (model, lane) => chooseBackend(candidatesOf({ model, lane }), { lane, random }).outcome !== 'full',
    async take(asked, given) {
      const reservation = given !== undefined && given.leftMs() > 0 ? given : undefined;
      const askedAt = now();
      if (reservation !== undefined && hasKeys(asked)) await preferred.settle(asked, reservation);
      if (asked.signal.aborted) {
        reservation?.release();
        return { outcome: 'late' };
      }
      const ask = { ...asked, waitMs: asked.waitMs - (now() - askedAt) };
      const slot = reservation && useOrMove(reservation, ask, { preferred, candidatesOf });
      if (slot !== undefined) return { outcome: 'slot', slot };
      // Jobs that wait go first, also if room has come with time.
      waiting.serve();
      return answer(ask) ?? (ask.waitMs > 0 ? waiting.wait(ask) : { outcome: 'late' });
    },
    ...createModelFacts({ ...parts, candidatesOf }),
    pauses,
    breakerStatuses: served.breakerStatuses,
    seenHealth: served.seenHealth,
    uses: (isLeaving) => load.uses({ isLeaving, isWaiting: waiting.count() > 0 }),
    load: load.report,
    waiting: waiting.count,
    sharesChanged: () => change(),
    follow() {
      served.follow();
      waiting.serve();
    },
    [Symbol.dispose]() {
      for (const part of [waiting, served]) part[Symbol.dispose]();
    },
  };
}

function createCandidates({
  currentPlanFile,
  served,
  load,
  pauses,
  contextOf,
}: {
  currentPlanFile: () => Pick<PlanFile, 'backends'>;
  served: ServedBackends;
  load: BackendLoad;
  pauses: Pauses;
  contextOf: BackendSlots['contextOf'];
}) {
  /** Without those that the request may not use. */
  return function candidatesOf(ask: Pick<Ask, 'model' | 'lane'> & Partial<Ask>): Candidate[] {
    const { model, lane, tried, holder = '', only, promptTokensMin = 0 } = ask;
    return [...served.ofModel(model)].flatMap(([name, health]) => {
      const { location, weight = 1 } = currentPlanFile().backends[name] ?? {};
      if (location === undefined || tried?.has(name) || location !== (only ?? location)) return [];
      if (promptTokensMin >= (contextOf(name) ?? Number.POSITIVE_INFINITY)) return [];
      return [
        {
          name,
          location,
          refuses: weight === 0 || health.refuses(holder) || pauses.refuses(name),
          isDelayed: health.isProbed() || pauses.delays(name),
          isSuspect: health.isSuspect(holder),
          hasOwnCall: health.callsOf(holder) > 0,
          inFlight: load.callsOf(name),
          requestsAtOnce: load.limitOf(name, lane),
          isRenewing: (ask.waitMs ?? 1) > 0 && load.mayGetRoom(name, lane),
          fleetCalls: load.fleetCallsOf(name),
          fleetCallsMax: load.fleetLimitOf(name) ?? Number.POSITIVE_INFINITY,
          weight,
          firstTokenMs: health.firstTokenMs(),
        },
      ];
    });
  };
}

function createChoose({
  candidatesOf,
  load,
  lookAgain,
  onHungry,
  random,
}: {
  candidatesOf: CandidatesOf;
  load: Pick<BackendLoad, 'fullOf' | 'noteHungry'>;
  lookAgain: (model: string) => void;
  onHungry: (backends: readonly string[]) => void;
  random: () => number;
}) {
  return function choose(ask: Parameters<CandidatesOf>[0]): Choice {
    lookAgain(ask.model);
    const left = candidatesOf(ask);
    const choice = chooseBackend(left, { lane: ask.lane, random });
    const chosen = left.find(({ name }) => choice.outcome === 'call' && name === choice.name);
    const full = load.fullOf(left);
    // With room on-prem, nothing waits for the others.
    if (chosen?.location !== 'on-prem' && full.length > 0) {
      load.noteHungry(full);
      onHungry(full);
    }
    return choice;
  };
}

type MoveParts = { preferred: Pick<ReturnType<typeof createPreferredSlots>, 'take'>; candidatesOf: CandidatesOf };

function useOrMove(reservation: Reservation, ask: Ask, { preferred, candidatesOf }: MoveParts): Slot | undefined {
  const moved = preferred.take(ask, reservation);
  if (moved.outcome !== 'moved') return useReserved(reservation, ask, candidatesOf(ask));
  reservation.release();
  return moved.slot;
}

/**
 * The slot that is reserved, unless the request may not use it, or the backend is suspect for its account and another one is not, or
 * already has a call of it.
 */
function useReserved(reservation: Reservation, ask: Ask, candidates: readonly Candidate[]): Slot | undefined {
  const reserved = candidates.find(({ name }) => name === reservation.backend);
  const isBest =
    reserved?.isSuspect === false ||
    (!reserved?.hasOwnCall && candidates.every(({ isSuspect, refuses }) => isSuspect || refuses));
  if (reserved?.refuses === false && isBest) return reservation.use(ask.holder);
  reservation.release();
  return undefined;
}

type CandidatesOf = ReturnType<typeof createCandidates>;

type Facts = Pick<BackendSlots, 'namesOf' | 'allRefuse' | 'contextOf' | 'callableInMs' | 'called'>;

/** What is known of the backends, and of those of a model. */
function createModelFacts({
  currentPlanFile,
  served,
  contextOf,
  candidatesOf,
  pauses,
}: {
  currentPlanFile: () => Pick<PlanFile, 'backends'>;
  served: ServedBackends;
  contextOf: BackendSlots['contextOf'];
  candidatesOf: CandidatesOf;
  pauses: Pick<Pauses, 'of'>;
}): Facts {
  const namesOf = (model: string) => [...served.ofModel(model).keys()];
  const candidates = (model: string) => candidatesOf({ model, lane: 'interactive' });
  const waitOf = ({ name, refuses }: Candidate) => pauses.of(name)?.leftMs ?? (refuses ? probeAfterMs : 0);
  return {
    namesOf,
    allRefuse: (model) => candidates(model).every(({ refuses }) => refuses),
    contextOf,
    callableInMs: (model) => Math.min(...candidates(model).map(waitOf)),
    called() {
      const { backends } = currentPlanFile();
      return new Map(Object.entries(backends).filter(([name]) => served.names().has(name)));
    },
  };
}
