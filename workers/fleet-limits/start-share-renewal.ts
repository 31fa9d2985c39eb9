import { atBeat } from '../../shared/concurrency/at-beat.ts';
import { within } from '../../shared/concurrency/shutdown.ts';
import type { Log } from '../../shared/process/log.ts';
import {
  type BackendNews,
  type BackendUse,
  type PoolMembership,
  type RenewedShares,
  type RenewShares,
  type Share,
  shareMs,
  unlimited,
} from './renew-shares.ts';

/** This worker's shares of its backends' fleet limits. */
export interface Shares extends AsyncDisposable {
  /** `unknown` if there is no share, or if it has expired because Redis does not answer: for a backend with a limit, none. */
  shareOf(backend: string, unknown: Share): Share;
  /** False if they have expired (contract.md#o4-expiry-of-shares). Then no call may begin, not even in a reserved slot. */
  areValid(backend: string): boolean;
  /** The share that is being renewed, from which no further call may begin; undefined if none is. */
  renewingShareOf(backend: string): Share | undefined;
  /** Calls of other workers in flight there, as of the last renewal; 0 if they are not known. */
  callsElsewhere(backend: string): number;
  /** Renews the shares of these backends as soon as possible, at most five times a second. For jobs that wait. */
  renewSoon(backends: readonly string[]): void;
  /** The same, at most 50 times a second. For requests that need a slot which another worker holds and does not use. */
  renewQuickly(backends: readonly string[]): void;
  /** As of the last renewal. */
  membershipOf(pool: string): PoolMembership;
  /** Resolves after the first renewal. */
  renewed: Promise<void>;
}

const renewEveryMs = 500;
const renewPauseMsMin = 200;
const quickPauseMsMin = 20;
/** How long stopping may wait for a Redis that does not answer. A share that is not given up expires. */
const leaveMs = 500;

export function startShareRenewal(deps: {
  renewShares: RenewShares;
  pools: () => readonly string[];
  /** What is in use and needed now. */
  uses: () => BackendUse[];
  /** What is new of a backend, and what is to be told the next time because it did not reach Redis. */
  takeNews: (backend: string) => BackendNews;
  keepNews: (backend: string, news: BackendNews) => void;
  /** The shares may have changed. `pauses`: those of backends that the fleet knows. */
  onRenewed: (pauses: RenewedShares['pauses']) => void;
  /** Aborted when the process is asked to stop. Then it is no longer a worker of its pools. */
  shutdown: AbortSignal;
  log: Log;
  now?: () => number;
  /** Calls `run` after this time, unless the returned function was called before. */
  after?: (ms: number, run: () => void) => () => void;
}): Shares {
  const { renewShares, uses, onRenewed, shutdown, log } = deps;
  const { now = () => performance.now(), after = atBeat } = deps;
  const closing = new AbortController();
  const known = createKnownShares(now);
  let pools = new Map<string, PoolMembership>();
  let renewals = 0;
  let hasRenewed = false;
  let isFailing = false;
  let pause = createPause({ now, after });
  const first = Promise.withResolvers<void>();

  async function renew(): Promise<void> {
    const sentAt = now();
    const sent = uses().map((use) => ({ ...use, ...deps.takeNews(use.backend) }));
    let pauses: RenewedShares['pauses'] = new Map();
    known.report(sent);
    try {
      const isMember = !shutdown.aborted;
      const renewal = { number: ++renewals, pools: isMember ? deps.pools() : [], uses: sent };
      const answer = await renewShares(hasRenewed ? 'known' : 'new', renewal);
      ({ pools, pauses } = answer);
      known.set(answer, sentAt);
      known.report([]);
      hasRenewed = true;
      isFailing = false;
    } catch (error) {
      for (const { backend, busyCalls, pause: learned } of sent) deps.keepNews(backend, { busyCalls, pause: learned });
      if (!isFailing && !closing.signal.aborted) log.warn({ err: error }, 'shares of backends could not be renewed');
      isFailing = true;
    }
    first.resolve();
    onRenewed(pauses);
  }

  async function renewUntilClosed(): Promise<void> {
    while (!closing.signal.aborted) {
      pause = createPause({ now, after });
      await renew();
      // During a shutdown, calls that end are given to other workers at once.
      await pause.begin(shutdown.aborted ? renewPauseMsMin : renewEveryMs);
    }
  }

  const renewing = renewUntilClosed();
  shutdown.addEventListener('abort', () => pause.endAfter(renewPauseMsMin), { once: true });

  return {
    renewed: first.promise,
    shareOf: known.shareOf,
    areValid: known.areValid,
    callsElsewhere: known.callsElsewhere,
    renewingShareOf: known.renewingShareOf,
    renewSoon: () => pause.endAfter(renewPauseMsMin),
    renewQuickly: () => pause.endAfter(quickPauseMsMin),
    membershipOf: (pool) => pools.get(pool) ?? { workers: 0, checksStalled: false },
    async [Symbol.asyncDispose]() {
      closing.abort();
      pause.endAfter(0);
      await within(leaveMs, renewing);
      await within(
        leaveMs,
        renewShares('leaves', { number: ++renewals, pools: [], uses: [] }).catch(() => {}),
      );
    },
  };
}

/** The pause after a renewal. What is asked for during the renewal counts from its end. */
function createPause({ now, after }: { now: () => number; after: (ms: number, run: () => void) => () => void }) {
  const ended = Promise.withResolvers<void>();
  const cancels: (() => void)[] = [];
  let beganAt: number | undefined;
  let shortestMs = Number.POSITIVE_INFINITY;

  function wait(): void {
    if (beganAt === undefined) return;
    const leftMs = beganAt + shortestMs - now();
    if (leftMs > 0) cancels.push(after(leftMs, ended.resolve));
    else ended.resolve();
  }

  /** Ends the pause when this time of it has passed. */
  function endAfter(ms: number): void {
    if (ms >= shortestMs) return;
    shortestMs = ms;
    wait();
  }

  return {
    endAfter,
    async begin(ms: number): Promise<void> {
      beganAt = now();
      if (ms < shortestMs) endAfter(ms);
      else wait();
      await ended.promise;
      for (const cancel of cancels) cancel();
    },
  };
}

/** The shares of the last renewal, until they expire. */
function createKnownShares(now: () => number) {
  let latest: Pick<RenewedShares, 'shares' | 'callsElsewhere'> = { shares: new Map(), callsElsewhere: new Map() };
  let expiresAt = 0;
  /**
   * Calls in flight that were reported to Redis, until it answers. The grant may be as small, so no further calls begin meanwhile: also
   * without an answer, it may have been made.
   */
  let reported = new Map<string, number>();
  const areValid = () => now() < expiresAt;

  return {
    report(uses: readonly BackendUse[]): void {
      reported = new Map(uses.map(({ backend, inFlight }) => [backend, inFlight]));
    },
    /** From before it was sent, so that it expires here before it expires in Redis. */
    set(renewed: RenewedShares, sentAt: number): void {
      latest = renewed;
      expiresAt = sentAt + shareMs;
    },
    areValid,
    renewingShareOf: (backend: string): Share | undefined =>
      reported.has(backend) && areValid() ? latest.shares.get(backend) : undefined,
    callsElsewhere: (backend: string): number => (areValid() ? (latest.callsElsewhere.get(backend) ?? 0) : 0),
    shareOf(backend: string, unknown: Share): Share {
      const share = latest.shares.get(backend);
      if (share === undefined || !areValid()) return unknown;
      if (share === unlimited) return unlimited;
      const callsMax = reported.get(backend) ?? share.calls;
      return { calls: Math.min(callsMax, share.calls), batchCalls: Math.min(callsMax, share.batchCalls) };
    },
  };
}
