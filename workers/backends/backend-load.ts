import { oncePerObject } from '../../shared/concurrency/single-flight.ts';
import { backendsWithKeys } from '../../shared/endpoints/affinity-keys.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Lane } from '../../shared/redis/keys.ts';
import { type BackendUse, batchCallsMax, noShare, type Share, unlimited } from '../fleet-limits/renew-shares.ts';
import type { Candidate } from './choose-backend.ts';

/** The calls in flight of this process, and how many it may make, by backend. */
export interface BackendLoad {
  callsOf(backend: string): number;
  /** How many calls at once this process may make for a lane: also less if the backend has shown that it has less room. */
  limitOf(backend: string, lane: Lane): number;
  /** Undefined if the backend has no limit, or a limit of each worker. */
  fleetLimitOf(backend: string): number | undefined;
  begin(backend: string): void;
  end(backend: string): void;
  /** A client's request calls the backend. */
  noteAsked(backend: string): void;
  /** Calls in flight of all workers, as far as this one knows. */
  fleetCallsOf(backend: string): number;
  /** Whether its share is being renewed, and there will be room for a lane unless the new share is smaller. */
  mayGetRoom(backend: string, lane: Lane): boolean;
  /** Those that may be called but have no room. */
  fullOf(candidates: readonly Candidate[]): string[];
  /** Jobs wait for these backends, or went to a cloud because they are full. */
  noteHungry(backends: readonly string[]): void;
  /** What is in use and needed of backends with a fleet limit. `isWaiting`: jobs in progress wait for a slot. */
  uses(how: { isLeaving: boolean; isWaiting: boolean }): BackendUse[];
  /**
   * By backend: calls in flight, `requests_at_once`, and this worker's share of it or of what the backend has shown to have room for;
   * undefined if there is none, or if the limit is of each worker.
   */
  report(): { backend: string; calls: number; limit: number | undefined; share: number | undefined }[];
}

/** After a client has called a backend, lines of batches leave room for the next client for this long. */
const askedForMs = 5_000;
/** Jobs wait for a backend if it was found full within this time. */
const hungryForMs = 1_000;

export function createBackendLoad(deps: {
  currentPlanFile: () => Pick<PlanFile, 'models' | 'backends'>;
  /** The backends that this process may call. */
  called: () => ReadonlySet<string>;
  shareOf: (backend: string, unknown: Share) => Share;
  /** The share that is being renewed; undefined if none is. */
  renewingShareOf: (backend: string) => Share | undefined;
  /** Calls of other workers in flight, as of the last renewal. */
  callsElsewhere: (backend: string) => number;
  now: () => number;
}): BackendLoad {
  const { currentPlanFile, called, shareOf, renewingShareOf, callsElsewhere, now } = deps;
  const inFlight = new Map<string, number>();
  /** When a client last called a backend, and when a backend was last found full. */
  const askedAt = new Map<string, number>();
  const hungryAt = new Map<string, number>();
  /** The fleet limits of backends with calls in flight, which have to be reported also after the backend has gone from the plan file. */
  const limitsInUse = new Map<string, number>();

  const callsOf = (name: string) => inFlight.get(name) ?? 0;
  const isWithin = (at: number | undefined, ms: number) => now() - (at ?? Number.NEGATIVE_INFINITY) < ms;
  const isAsked = (name: string) => isWithin(askedAt.get(name), askedForMs);

  function fleetLimitOf(name: string): number | undefined {
    const { requestsAtOnce, perWorker } = currentPlanFile().backends[name] ?? {};
    return perWorker ? undefined : requestsAtOnce;
  }

  /** Of those that have gone from the plan file, the calls in flight still count until they end. */
  function useOf(backend: string, { isLeaving, isWaiting }: { isLeaving: boolean; isWaiting: boolean }): BackendUse[] {
    const isCalled = called().has(backend);
    const limit = isCalled ? fleetLimitOf(backend) : limitsInUse.get(backend);
    if (!isCalled && limit === undefined) return [];
    const wants = isCalled && isWithin(hungryAt.get(backend), hungryForMs) && (!isLeaving || isWaiting);
    const need = wants ? 'wants' : isLeaving || !isCalled ? 'stops' : 'idle';
    const isOfSeveralPools = backendsOfSeveralPools(currentPlanFile().models).has(backend);
    const isPreferred = backendsWithKeys(currentPlanFile()).has(backend);
    return [
      { backend, limit, inFlight: callsOf(backend), need, isAsked: isAsked(backend), isOfSeveralPools, isPreferred },
    ];
  }

  function limitOf(name: string, lane: Lane): number {
    const { requestsAtOnce, perWorker } = currentPlanFile().backends[name] ?? {};
    const isOfFleet = requestsAtOnce !== undefined && !perWorker;
    const share = callsWithin(shareOf(name, isOfFleet ? noShare : unlimited), lane);
    if (requestsAtOnce === undefined || isOfFleet) return share;
    return Math.min(share, lane === 'batch' && isAsked(name) ? batchCallsMax(requestsAtOnce) : requestsAtOnce);
  }

  return {
    callsOf,
    fleetLimitOf,
    mayGetRoom(name, lane) {
      const share = renewingShareOf(name);
      return share !== undefined && callsOf(name) >= limitOf(name, lane) && callsOf(name) < callsWithin(share, lane);
    },
    limitOf,
    begin(name) {
      inFlight.set(name, callsOf(name) + 1);
      const limit = fleetLimitOf(name);
      if (limit !== undefined) limitsInUse.set(name, limit);
    },
    end(name) {
      const calls = callsOf(name) - 1;
      if (calls > 0) inFlight.set(name, calls);
      else {
        inFlight.delete(name);
        limitsInUse.delete(name);
      }
    },
    fleetCallsOf: (name) => callsOf(name) + callsElsewhere(name),
    fullOf: (candidates) =>
      candidates
        .filter((each) => !each.refuses && !each.isRenewing && each.inFlight >= each.requestsAtOnce)
        .map(({ name }) => name),
    noteHungry(backends) {
      for (const name of backends) hungryAt.set(name, now());
    },
    noteAsked: (name) => void askedAt.set(name, now()),
    uses: (how) => [...new Set([...called(), ...limitsInUse.keys()])].flatMap((backend) => useOf(backend, how)),
    report: () =>
      [...called()].map((backend) => {
        const { requestsAtOnce: limit, perWorker } = currentPlanFile().backends[backend] ?? {};
        const { calls: share } = shareOf(backend, fleetLimitOf(backend) === undefined ? unlimited : noShare);
        const isOfFleet = Number.isFinite(share) && !perWorker;
        return { backend, calls: callsOf(backend), limit, share: isOfFleet ? share : undefined };
      }),
  };
}

function callsWithin({ calls, batchCalls }: Share, lane: Lane): number {
  return lane === 'batch' ? batchCalls : calls;
}

/** Backends of models in more than one pool. */
const backendsOfSeveralPools = oncePerObject((models: PlanFile['models']): ReadonlySet<string> => {
  const ofPools = Map.groupBy(
    Object.values(models).flatMap(({ pool, backends }) => backends.map((backend) => ({ pool, backend }))),
    ({ backend }) => backend,
  );
  return new Set(
    [...ofPools].filter(([, uses]) => new Set(uses.map(({ pool }) => pool)).size > 1).map(([name]) => name),
  );
});
