import type { Lane } from '../../shared/lane.ts';
import type { Backend, PlanFile } from '../../shared/plan-file.ts';
import type { BreakerState } from './breaker.ts';
import { type Candidate, type Choice, chooseBackend } from './choose-backend.ts';
import { type CallOutcome, createServedModel, type ServedModel } from './served-model.ts';
import { createUnansweredCalls } from './unanswered-calls.ts';
import { createWaitingJobs } from './waiting-jobs.ts';

/** What one call takes of a backend, from before it is made until it has ended. */
export interface Slot {
  name: string;
  backend: Backend;
  /** The backend answers. */
  firstToken(): void;
  /** Only the first word counts. `retryAfterMs`: how long the backend wants to be left alone. */
  end(outcome: CallOutcome, retryAfterMs?: number): void;
}

/**
 * `refused`: no backend that is left is to be called. `full`: none of those that are has room, and who asks does not wait, or
 * too many wait already; `late`: there was none for as long as it waits, or it was aborted.
 */
export type Taken = { outcome: 'slot'; slot: Slot } | { outcome: 'refused' | 'full' | 'late' };

export type Ask = {
  model: string;
  /** Where the job waits: a line of a batch gets only what nobody who waits for an answer asks for. */
  lane: Lane;
  /** Backends that were tried in this pass. */
  tried: ReadonlySet<string>;
  /** How long a full backend may be waited for; 0: not at all. */
  waitMs: number;
  signal: AbortSignal;
  /** Whether this backend's answer comes in parts; left out, it does. */
  isHeard?: (backend: Backend) => boolean;
};

/** How a model stands with one of its backends. */
export type BackendStanding = { model: string; backend: string; breaker: Exclude<BreakerState, 'probing'> };

export interface BackendSlots extends Disposable {
  /** The backend to call next, at once or, where all are full, in the order of asking. */
  take(ask: Ask): Promise<Taken>;
  /** Whether a call for the model would have to wait for room. */
  isFull(model: string, lane: Lane): boolean;
  /** The backends of a model, as the plan file has them. */
  namesOf(model: string): string[];
  /** Whether each backend of the model is one that is not to be called. */
  allRefuse(model: string): boolean;
  standings(): BackendStanding[];
  /** Calls in flight, by backend. */
  inFlight(): { backend: string; calls: number }[];
  /** Jobs of a pool's interactive lane that wait for a full backend. */
  waiting(pool: string): number;
}

type Parts = {
  planFile: Pick<PlanFile, 'models' | 'backends' | 'timeouts'>;
  pools: readonly string[];
  /** Jobs at once in each pool. */
  concurrency: number;
  onBreaker?: (standing: BackendStanding) => void;
  random?: () => number;
  now?: () => number;
};

/**
 * Of a backend's calls at once, the share that lines of batches leave free while it is asked for others: a request that comes
 * then finds room at once, and not only when a line has ended.
 */
const reservedShare = 1 / 8;
const reservedForMs = 5_000;

/** Jobs that may wait for a full backend: the others of their pool find a place in its workers all the same. */
const waitingShare = 0.5;

/** What this process knows of its backends: their calls in flight, and for each model that they serve how they answered it. */
export function createBackendSlots(parts: Parts): BackendSlots {
  const { planFile, pools, concurrency, onBreaker = () => {}, random = Math.random } = parts;
  const { now = () => performance.now() } = parts;
  const inFlight = new Map<string, number>();
  /** When a backend was last called for somebody who waits. */
  const calledAt = new Map<string, number>();
  const { firstTokenMs } = planFile.timeouts;
  const unanswered = createUnansweredCalls({ models: planFile.models, concurrency, firstTokenMs, now });
  const waiting = createWaitingJobs<Ask, Taken>({
    answer,
    alike: ({ model, tried }) => [model, ...[...tried].toSorted()].join(' '),
    late: { outcome: 'late' },
  });
  const served = new Map<string, Map<string, ServedModel>>();
  for (const [model, { pool, backends }] of Object.entries(planFile.models)) {
    if (!pools.includes(pool)) continue;
    served.set(model, new Map([...new Set(backends)].map((name) => [name, serve(model, name)])));
  }

  function serve(model: string, backend: string): ServedModel {
    const report = (state: BreakerState) => {
      onBreaker({ model, backend, breaker: shown(state) });
      waiting.serve();
    };
    return createServedModel({ onBreaker: report, probeMs: firstTokenMs, random, now });
  }

  function roomFor(lane: Lane, name: string, { requestsAtOnce = Number.POSITIVE_INFINITY }: Backend): number {
    const isAsked = now() - (calledAt.get(name) ?? Number.NEGATIVE_INFINITY) < reservedForMs;
    const isShared = lane === 'batch' && isAsked && Number.isFinite(requestsAtOnce);
    return isShared ? requestsAtOnce - Math.floor(requestsAtOnce * reservedShare) : requestsAtOnce;
  }

  function candidatesOf(model: string, lane: Lane): Candidate[] {
    return [...(served.get(model) ?? [])].flatMap(([name, as]) => {
      const backend = planFile.backends[name];
      if (backend === undefined) return [];
      const { location } = backend;
      const load = {
        inFlight: inFlight.get(name) ?? 0,
        requestsAtOnce: roomFor(lane, name, backend),
        firstTokenMs: as.firstTokenMs(),
      };
      return [{ name, location, refuses: as.refuses(), ...load }];
    });
  }

  function choose({ model, lane, tried }: Pick<Ask, 'model' | 'lane' | 'tried'>): Choice {
    const left = candidatesOf(model, lane).filter(({ name }) => !tried.has(name));
    const choice = chooseBackend(left, { lane, random });
    // One that has tried another has its share already.
    const isOver = tried.size === 0 && unanswered.isCrowded(model);
    return choice.outcome === 'call' && isOver ? { outcome: 'full' } : choice;
  }

  function answer(ask: Ask): Taken | undefined {
    const choice = choose(ask);
    if (choice.outcome === 'call') return occupy(ask, choice.name);
    if (choice.outcome === 'refused') return choice;
    // It would hold the place of one that somebody answers.
    return unanswered.isSilent(ask.model) ? choice : undefined;
  }

  function occupy({ model, lane, isHeard = () => true }: Ask, name: string): Taken {
    const backend = planFile.backends[name];
    const call = served.get(model)?.get(name)?.begin();
    if (backend === undefined || call === undefined) return { outcome: 'refused' };
    inFlight.set(name, (inFlight.get(name) ?? 0) + 1);
    if (lane === 'interactive') calledAt.set(name, now());
    const hear = unanswered.begin(model, isHeard(backend));
    let isOver = false;
    const slot: Slot = {
      name,
      backend,
      firstToken() {
        call.firstToken();
        hear(true);
        waiting.serve();
      },
      end(outcome, retryAfterMs = 0) {
        if (isOver) return;
        isOver = true;
        inFlight.set(name, (inFlight.get(name) ?? 1) - 1);
        call.end(outcome, retryAfterMs);
        hear(outcome === 'answered');
        waiting.serve();
      },
    };
    return { outcome: 'slot', slot };
  }

  const poolOf = (model: string) => planFile.models[model]?.pool;
  const waitingIn = (pool: string | undefined) =>
    waiting.count(({ model, lane }) => lane === 'interactive' && poolOf(model) === pool);

  return {
    async take(ask) {
      if (ask.signal.aborted) return { outcome: 'late' };
      // Whoever has waited goes first, also where it was time that has made room.
      waiting.serve();
      const result = answer(ask);
      if (result !== undefined) return result;
      const isCrowded =
        ask.lane === 'interactive' && waitingIn(poolOf(ask.model)) >= Math.floor(waitingShare * concurrency);
      return ask.waitMs > 0 && !isCrowded ? waiting.wait(ask) : { outcome: 'full' };
    },
    isFull: (model, lane) => choose({ model, lane, tried: new Set() }).outcome === 'full',
    namesOf: (model) => [...(served.get(model)?.keys() ?? [])],
    allRefuse: (model) => candidatesOf(model, 'interactive').every(({ refuses }) => refuses),
    standings: () =>
      [...served].flatMap(([model, backends]) =>
        [...backends].map(([backend, as]) => ({ model, backend, breaker: shown(as.breaker()) })),
      ),
    inFlight: () => [...inFlight].map(([backend, calls]) => ({ backend, calls })),
    waiting: waitingIn,
    [Symbol.dispose]() {
      waiting[Symbol.dispose]();
      for (const backends of served.values()) for (const as of backends.values()) as[Symbol.dispose]();
    },
  };
}

function shown(state: BreakerState): BackendStanding['breaker'] {
  return state === 'probing' ? 'half-open' : state;
}
