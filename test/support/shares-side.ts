import { randomUUID } from 'node:crypto';
import type { Redis } from '../../shared/redis/connections.ts';
import {
  type BackendNews,
  type BackendUse,
  createRenewShares,
  type RenewShares,
  type Share,
  shareMs,
} from '../../workers/fleet-limits/renew-shares.ts';

/** The share of one backend that one worker has. `calls` are in flight. */
export type ShareHolder = {
  id: string;
  pool: string;
  calls: number;
  share: Share;
  expiresAt: number;
  renewals: number;
  renewShares: RenewShares;
};

export const pool = 'default';

export const notBusy = { busyCalls: 0, pause: undefined };

type Renewal = Partial<Pick<BackendUse, 'isAsked'> & BackendNews & { isRepeated: boolean }>;

type Options = {
  limit: number | undefined;
  setTime: (ms: number) => Promise<void>;
  isOfSeveralPools?: boolean;
  isPreferred?: boolean;
};

/** Workers that share one backend's limit, on a clock that the test sets (milliseconds). */
export function openSharesSide(
  redis: Redis,
  { limit, setTime, isOfSeveralPools = false, isPreferred = false }: Options,
) {
  let now = 1_900_000_000_000;
  const holders: ShareHolder[] = [];

  return {
    holders,
    now: () => now,
    /** Moves the clock forwards or back. */
    async pass(ms: number): Promise<void> {
      now += ms;
      await setTime(now);
    },
    join(ofPool = pool): ShareHolder {
      const id = randomUUID();
      const none = { calls: 0, batchCalls: 0 };
      const renewShares = createRenewShares(redis, { workerId: id });
      const holder = { id, pool: ofPool, calls: 0, share: none, expiresAt: 0, renewals: 0, renewShares };
      holders.push(holder);
      return holder;
    },
    /** `busy`: what the worker has learned of the backend since its last renewal. `isRepeated`: the last renewal is sent once more. */
    async renew(holder: ShareHolder, need: BackendUse['need'], given: Renewal = {}) {
      const { isAsked = false, isRepeated = false, ...busy } = given;
      const use = {
        backend: 'a',
        limit,
        inFlight: holder.calls,
        need,
        isAsked,
        isOfSeveralPools,
        isPreferred,
        ...notBusy,
        ...busy,
      };
      const pools = need === 'stops' ? [] : [holder.pool];
      const mode = holder.renewals > 0 ? 'known' : 'new';
      if (!isRepeated) holder.renewals++;
      const renewed = await holder.renewShares(mode, { number: holder.renewals, pools, uses: [use] });
      holder.share = renewed.shares.get('a') ?? { calls: 0, batchCalls: 0 };
      holder.expiresAt = now + shareMs;
      return renewed;
    },
    async leave(holder: ShareHolder): Promise<void> {
      holders.splice(holders.indexOf(holder), 1);
      await holder.renewShares('leaves', { number: holder.renewals + 1, pools: [], uses: [] });
    },
    kill(holder: ShareHolder): void {
      holders.splice(holders.indexOf(holder), 1);
    },
    mayBegin: (holder: ShareHolder) => holder.calls < holder.share.calls && now < holder.expiresAt,
    inFlight: () => holders.reduce((sum, { calls }) => sum + calls, 0),
    granted: () => holders.reduce((sum, { share }) => sum + share.calls, 0),
  };
}

export type SharesSide = ReturnType<typeof openSharesSide>;
