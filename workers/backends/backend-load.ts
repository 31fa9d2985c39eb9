import type { Lane } from '../../shared/lane.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { type BackendUse, batchCallsMax, type Share } from '../shares/renew-shares.ts';
import type { Candidate } from './choose-backend.ts';

/** The calls in flight of this process, and how many it may make, by backend. */
export interface BackendLoad {
  callsOf(backend: string): number;
  /** How many calls at once this process may make for a lane. */
  limitOf(backend: string, lane: Lane): number;
  /** Undefined if the backend has no limit, or a limit of each worker. */
  fleetLimitOf(backend: string): number | undefined;
  begin(backend: string): void;
  end(backend: string): void;
  /** A client's request calls the backend. */
  noteAsked(backend: string): void;
  /** Records and returns those that may be called but have no room. */
  noteFull(candidates: readonly Candidate[]): string[];
  /** What is in use and needed of backends with a fleet limit. `isWaiting`: jobs in progress wait for a slot. */
  uses(how: { isLeaving: boolean; isWaiting: boolean }): BackendUse[];
  /** Calls in flight, `requests_at_once`, and this worker's share of it if it is a fleet limit, by backend. */
  report(): { backend: string; calls: number; limit: number | undefined; share: number | undefined }[];
}

/** After a client has called a backend, lines of batches leave room for the next client for this long. */
const askedForMs = 5_000;
/** Jobs wait for a backend if it was found full within this time. */
const hungryForMs = 1_000;

export function createBackendLoad(deps: {
  planFile: Pick<PlanFile, 'models' | 'backends'>;
  /** The backends that this process may call. */
  called: ReadonlySet<string>;
  shareOf: (backend: string) => Share;
  now: () => number;
}): BackendLoad {
  const { planFile, called, shareOf, now } = deps;
  const inFlight = new Map<string, number>();
  /** When a client last called a backend, and when a backend was last found full. */
  const askedAt = new Map<string, number>();
  const hungryAt = new Map<string, number>();
  const ofSeveralPools = backendsOfSeveralPools(planFile);

  const callsOf = (name: string) => inFlight.get(name) ?? 0;
  const isAsked = (name: string) => now() - (askedAt.get(name) ?? Number.NEGATIVE_INFINITY) < askedForMs;
  const isHungry = (name: string) => now() - (hungryAt.get(name) ?? Number.NEGATIVE_INFINITY) < hungryForMs;

  function fleetLimitOf(name: string): number | undefined {
    const { requestsAtOnce, perWorker } = planFile.backends[name] ?? {};
    return perWorker ? undefined : requestsAtOnce;
  }

  return {
    ...{ callsOf, fleetLimitOf },
    limitOf(name, lane) {
      const { requestsAtOnce, perWorker } = planFile.backends[name] ?? {};
      if (requestsAtOnce === undefined) return Number.POSITIVE_INFINITY;
      if (!perWorker) return shareOf(name)[lane === 'batch' ? 'batchCalls' : 'calls'];
      return lane === 'batch' && isAsked(name) ? batchCallsMax(requestsAtOnce) : requestsAtOnce;
    },
    begin: (name) => void inFlight.set(name, callsOf(name) + 1),
    end: (name) => void inFlight.set(name, callsOf(name) - 1),
    noteAsked: (name) => void askedAt.set(name, now()),
    noteFull(candidates) {
      const full = candidates.filter(
        ({ refuses, inFlight: calls, requestsAtOnce }) => !refuses && calls >= requestsAtOnce,
      );
      for (const { name } of full) hungryAt.set(name, now());
      return full.map(({ name }) => name);
    },
    uses: ({ isLeaving, isWaiting }) =>
      [...called].flatMap((backend) => {
        const limit = fleetLimitOf(backend);
        if (limit === undefined) return [];
        const wants = isHungry(backend) && (!isLeaving || isWaiting);
        const need = wants ? 'wants' : isLeaving ? 'stops' : 'idle';
        const isOfSeveralPools = ofSeveralPools.has(backend);
        return [{ backend, limit, inFlight: callsOf(backend), need, isAsked: isAsked(backend), isOfSeveralPools }];
      }),
    report: () =>
      [...called].map((backend) => {
        const limit = planFile.backends[backend]?.requestsAtOnce;
        const share = fleetLimitOf(backend) === undefined ? undefined : shareOf(backend).calls;
        return { backend, calls: callsOf(backend), limit, share };
      }),
  };
}

/** Backends of models in more than one pool. */
function backendsOfSeveralPools({ models }: Pick<PlanFile, 'models'>): ReadonlySet<string> {
  const ofPools = Map.groupBy(
    Object.values(models).flatMap(({ pool, backends }) => backends.map((backend) => ({ pool, backend }))),
    ({ backend }) => backend,
  );
  return new Set(
    [...ofPools].filter(([, uses]) => new Set(uses.map(({ pool }) => pool)).size > 1).map(([name]) => name),
  );
}
