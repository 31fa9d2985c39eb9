import type { Lane } from '../../shared/lane.ts';
import type { Backend, PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { BackendLoad } from './backend-load.ts';
import type { Candidate } from './choose-backend.ts';
import type { Pauses } from './pauses.ts';
import { createReservation, type Reservation, type TokenTime } from './reservation.ts';
import type { ServedBackends } from './served-backends.ts';

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
  /** How long to wait for a full backend, in milliseconds; 0: not at all. */
  waitMs: number;
  signal: AbortSignal;
};

type Deps = {
  currentPlanFile: () => Pick<PlanFile, 'backends'>;
  served: ServedBackends;
  load: BackendLoad;
  pauses: Pauses;
  contextOf: (backend: string) => number | undefined;
};

export function createCandidates({ currentPlanFile, served, load, pauses, contextOf }: Deps) {
  /** Without those that the request may not use. */
  return function candidatesOf(ask: Pick<Ask, 'model' | 'lane'> & Partial<Ask>): Candidate[] {
    const { model, lane, tried, holder = '', only, promptTokensMin = 0 } = ask;
    return [...served.ofModel(model)].flatMap(([name, health]) => {
      const { location } = currentPlanFile().backends[name] ?? {};
      if (location === undefined || tried?.has(name) || location !== (only ?? location)) return [];
      if (promptTokensMin >= (contextOf(name) ?? Number.POSITIVE_INFINITY)) return [];
      return [
        {
          name,
          location,
          refuses: health.refuses(holder) || pauses.refuses(name),
          isDelayed: health.isProbed() || pauses.delays(name),
          isSuspect: health.isSuspect(holder),
          hasOwnCall: health.callsOf(holder) > 0,
          inFlight: load.callsOf(name),
          requestsAtOnce: load.limitOf(name, lane),
          firstTokenMs: health.firstTokenMs(),
        },
      ];
    });
  };
}

/** Reserves a slot at one backend. Undefined if the model does not have this backend. */
export function createReserveAt(deps: Deps & { areSharesValid: (backend: string) => boolean; onFree: () => void }) {
  const { currentPlanFile, served, load, pauses, areSharesValid, onFree } = deps;
  const tokens = new Map<string, TokenTime>();

  function tokensOf(name: string): TokenTime {
    const known = tokens.get(name) ?? { at: Number.NEGATIVE_INFINITY };
    tokens.set(name, known);
    return known;
  }

  return function reserveAt(name: string, { model, lane }: Pick<Ask, 'model' | 'lane'>): Reservation | undefined {
    const [backend, health] = [currentPlanFile().backends[name], served.ofModel(model).get(name)];
    if (backend === undefined || health === undefined) return undefined;
    load.begin(name);
    const mayBeCalled = () => !health.refuses() && !health.isProbed() && !pauses.refuses(name) && !pauses.delays(name);
    return createReservation({
      name,
      backend,
      health,
      pauses,
      tokens: tokensOf(name),
      callsInFlight: () => load.callsOf(name),
      mayCall: () => mayBeCalled() && (load.fleetLimitOf(name) === undefined || areSharesValid(name)),
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
