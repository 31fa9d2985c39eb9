/** What a request takes of its pool's bound, from before its admission until its job has started or never will. */
export interface Place {
  /** Its job is in the queue: a count that begins from now on has it. */
  queued(): void;
  /** It takes nothing any more; idempotent. */
  leave(): void;
}

/**
 * `full` says which bound the request would pass. `requestsAtOnceMax` is the fair share of its account while room is short; undefined
 * if there is plenty.
 */
export type Entry = { place: Place; requestsAtOnceMax: number | undefined } | { full: 'jobs' | 'bytes' };

export interface QueueBounds {
  /** Makes no call: from what was counted last, and what this ingress has let through since. */
  enter(request: { pool: string; account: string; bytes: number }): Entry;
  /** Resolves once a count is needed: a request has entered since the last count, jobs were waiting then, or it failed. */
  whenUseful(pool: string): Promise<void>;
  /** To be called before a pool's jobs are counted; gives what takes the count, undefined where it could not be had. */
  beginCount(pool: string): (jobs: number | undefined) => void;
  /** Of the bodies of this ingress that have not started. */
  bytesWaiting(): number;
}

type Pool = {
  /** Jobs of all ingresses that waited when they were last counted, but for ours that have left since; undefined: not known. */
  counted: number | undefined;
  /** Places whose jobs that count may have missed. */
  uncounted: Set<{ queuedDuring: number }>;
  /** Places of each account in this ingress. */
  placesOf: Map<string, number>;
  useful: PromiseWithResolvers<void>;
};

/**
 * How much may wait: in each pool `depthMax` jobs of all ingresses, and in this ingress `bytesMax` of bodies. A count is a
 * fraction of a second old, so what this ingress has let through since is added to it, and what of its own has left is taken
 * away: a burst passes the bound by what other ingresses let through meanwhile, and a short queue that empties is filled again
 * at once. If the count is unknown, no request is refused for it. An idle pool is not counted: a burst then passes the bound by the
 * requests that enter before the first count is back.
 *
 * One account must not take all of it. Past half of a bound, an account may have up to a quarter of it. Of the jobs this bounds its
 * requests at once, which admission counts by their leases: waiting and running, of all pools and ingresses. Of the bytes it bounds
 * the bodies that wait in this ingress; 0 requests at once then refuses the next one.
 * A request that admission is going to refuse takes no place, or an account that asks on and on would fill the queue with those.
 */
export function createQueueBounds({ depthMax, bytesMax }: { depthMax: number; bytesMax: number }): QueueBounds {
  const pools = new Map<string, Pool>();
  const bytesOf = new Map<string, number>();
  let bytesWaiting = 0;
  let counts = 0;

  function poolOf(name: string): Pool {
    const known = pools.get(name);
    if (known !== undefined) return known;
    const pool: Pool = {
      ...{ counted: undefined, uncounted: new Set(), placesOf: new Map() },
      useful: Promise.withResolvers(),
    };
    pools.set(name, pool);
    return pool;
  }

  function addBytes(account: string, bytes: number): void {
    bytesWaiting += bytes;
    add(bytesOf, account, bytes);
  }

  type Asking = { pool: Pool; jobs: number; account: string; bytes: number };

  function shareOf({ pool, jobs, account, bytes }: Asking): number | undefined {
    const ofAccount = bytesOf.get(account) ?? 0;
    // A body that alone is larger than the share would else never pass.
    const isOverShare = ofAccount > 0 && ofAccount + bytes > bytesMax / 4;
    if (isOverShare && bytesWaiting + bytes > bytesMax / 2) return 0;
    if (jobs <= depthMax / 2) return undefined;
    const share = Math.max(1, Math.floor(depthMax / 4));
    return (pool.placesOf.get(account) ?? 0) < share ? share : 0;
  }

  function takePlace(pool: Pool, account: string, bytes: number): Place {
    const waiting = { queuedDuring: Number.POSITIVE_INFINITY };
    pool.uncounted.add(waiting);
    add(pool.placesOf, account, 1);
    addBytes(account, bytes);
    let left = false;
    return {
      queued() {
        waiting.queuedDuring = counts;
      },
      leave() {
        if (left) return;
        left = true;
        add(pool.placesOf, account, -1);
        addBytes(account, -bytes);
        if (!pool.uncounted.delete(waiting) && pool.counted !== undefined && pool.counted > 0) pool.counted -= 1;
      },
    };
  }

  return {
    enter({ pool: name, account, bytes }) {
      const pool = poolOf(name);
      pool.useful.resolve();
      const jobs = pool.counted === undefined ? 0 : pool.counted + pool.uncounted.size;
      if (jobs >= depthMax) return { full: 'jobs' };
      // A body that alone is larger than the bound would else never pass, however often it is sent.
      if (bytesWaiting > 0 && bytesWaiting + bytes > bytesMax) return { full: 'bytes' };
      const requestsAtOnceMax = shareOf({ pool, jobs, account, bytes });
      if (requestsAtOnceMax === 0) return { place: noPlace, requestsAtOnceMax };
      return { place: takePlace(pool, account, bytes), requestsAtOnceMax };
    },
    whenUseful: (name) => poolOf(name).useful.promise,
    beginCount(name) {
      const pool = poolOf(name);
      const count = ++counts;
      pool.useful = Promise.withResolvers();
      return function endCount(jobs) {
        pool.counted = jobs;
        for (const waiting of pool.uncounted) {
          if (jobs !== undefined && waiting.queuedDuring < count) pool.uncounted.delete(waiting);
        }
        if (jobs !== 0 || pool.uncounted.size > 0) pool.useful.resolve();
      };
    },
    bytesWaiting: () => bytesWaiting,
  };
}

/** Of a request that will be refused. */
const noPlace: Place = { queued() {}, leave() {} };

/** Without those that come to 0. */
function add(counts: Map<string, number>, name: string, count: number): void {
  const sum = (counts.get(name) ?? 0) + count;
  if (sum > 0) counts.set(name, sum);
  else counts.delete(name);
}
