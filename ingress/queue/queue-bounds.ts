import type { Depths } from './queue-depths.ts';
import type { LatestTurn } from './queue-turns.ts';

/** What a request takes of its model's bound, from before its admission until its job has started or never will. */
export interface QueuePlace {
  /** Its job is in the queue: a count that begins from now on has it. */
  queued(): void;
  /** It takes nothing any more; idempotent. */
  leave(): void;
  /** Of its account's requests for this model. */
  latestTurn: LatestTurn;
}

/** A place that its holder leaves unless another part has taken it over. */
export interface HeldPlace {
  /** From now on it is the caller's to leave. */
  takeOver(): QueuePlace;
}

/**
 * `full` says which bound the request would pass. `requestsAtOnceMax` is the fair share of its account while room is short; undefined
 * if there is plenty.
 */
export type QueueEntry = { place: QueuePlace; requestsAtOnceMax: number | undefined } | { full: 'jobs' | 'bytes' };

export interface QueueBounds {
  /** Makes no call: from what was counted last, and what this ingress has let through since. */
  enter(request: { model: string; account: string; bytes: number }): QueueEntry;
  /** Resolves once a count is needed: a request has entered since the last count, jobs were waiting then, or it failed. */
  whenUseful(): Promise<void>;
  /** Takes a count; undefined if there could be none. */
  counted(depths: Depths | undefined): void;
  /** Of the bodies of this ingress that have not started. */
  bytesWaiting(): number;
}

type Model = {
  /** Jobs of all ingresses that waited when they were last counted, without ours that have left since; undefined: not known. */
  counted: number | undefined;
  /** Places whose jobs that count may have missed, by when they were queued. */
  uncounted: Set<{ queuedAt: number }>;
  /** The accounts with places in this ingress, and how many each has. */
  accounts: Map<string, LatestTurn & { places: number }>;
};

/**
 * How much may wait: for each model `depthMax` jobs of all ingresses, and in this ingress `bytesMax` of bodies. A count is a
 * fraction of a second old, so what this ingress has let through since is added to it, and what of its own has left is taken
 * away: a burst passes the bound by what other ingresses let through meanwhile, and a short queue that empties is filled again
 * at once. If the count is unknown, no request is refused for it. Without requests nothing is counted: a burst then passes the bound by the
 * requests that enter before the first count is back.
 *
 * One account must not take all of it. Past half of a bound, an account may have up to a quarter of it. Of the jobs this bounds its
 * requests at once, which admission counts by their leases: waiting and running, of all models and ingresses. Of the bytes it bounds
 * the bodies that wait in this ingress; 0 requests at once then refuses the next one.
 * A request that admission is going to refuse takes no place, or an account that asks on and on would fill the queue with those.
 */
export function createQueueBounds({
  depthMax,
  bytesMax,
  now = () => performance.now(),
  ...parts
}: {
  models: readonly string[];
  depthMax: number;
  bytesMax: number;
  now?: () => number;
}): QueueBounds {
  const models = new Map(parts.models.map((name) => [name, newModel()]));
  const bytesOf = new Map<string, number>();
  let bytesWaiting = 0;
  let useful = Promise.withResolvers<void>();

  function modelOf(name: string): Model {
    const model = models.get(name) ?? newModel();
    models.set(name, model);
    return model;
  }

  function addBytes(account: string, bytes: number): void {
    bytesWaiting += bytes;
    add(bytesOf, account, bytes);
  }

  type Asking = { model: Model; jobs: number; account: string; bytes: number };

  function shareOf({ model, jobs, account, bytes }: Asking): number | undefined {
    const ofAccount = bytesOf.get(account) ?? 0;
    // A body that alone is larger than the share would else never pass.
    const isOverShare = ofAccount > 0 && ofAccount + bytes > bytesMax / 4;
    if (isOverShare && bytesWaiting + bytes > bytesMax / 2) return 0;
    if (jobs <= depthMax / 2) return undefined;
    const share = Math.max(1, Math.floor(depthMax / 4));
    return (model.accounts.get(account)?.places ?? 0) < share ? share : 0;
  }

  function takePlace(model: Model, account: string, bytes: number): QueuePlace {
    const waiting = { queuedAt: Number.POSITIVE_INFINITY };
    model.uncounted.add(waiting);
    const ofAccount = model.accounts.get(account) ?? { places: 0, turn: 0 };
    model.accounts.set(account, ofAccount);
    ofAccount.places += 1;
    addBytes(account, bytes);
    let left = false;
    return {
      latestTurn: ofAccount,
      queued() {
        waiting.queuedAt = now();
      },
      leave() {
        if (left) return;
        left = true;
        ofAccount.places -= 1;
        if (ofAccount.places === 0) model.accounts.delete(account);
        addBytes(account, -bytes);
        if (!model.uncounted.delete(waiting) && model.counted !== undefined && model.counted > 0) model.counted -= 1;
      },
    };
  }

  return {
    enter({ model: name, account, bytes }) {
      const model = modelOf(name);
      useful.resolve();
      const jobs = model.counted === undefined ? 0 : model.counted + model.uncounted.size;
      if (jobs >= depthMax) return { full: 'jobs' };
      // A body that alone is larger than the bound would else never pass, however often it is sent.
      if (bytesWaiting > 0 && bytesWaiting + bytes > bytesMax) return { full: 'bytes' };
      const requestsAtOnceMax = shareOf({ model, jobs, account, bytes });
      if (requestsAtOnceMax === 0) return { place: noPlace, requestsAtOnceMax };
      return { place: takePlace(model, account, bytes), requestsAtOnceMax };
    },
    whenUseful: () => useful.promise,
    counted(depths) {
      useful = Promise.withResolvers();
      for (const [name, model] of models) {
        model.counted = depths?.of(name, 'interactive');
        for (const waiting of model.uncounted) {
          if (depths !== undefined && waiting.queuedAt < depths.begunAt) model.uncounted.delete(waiting);
        }
        if (model.counted !== 0 || model.uncounted.size > 0) useful.resolve();
      }
    },
    bytesWaiting: () => bytesWaiting,
  };
}

function newModel(): Model {
  return { counted: undefined, uncounted: new Set(), accounts: new Map() };
}

/** Of a request that will be refused. */
const noPlace: QueuePlace = { queued() {}, leave() {}, latestTurn: { turn: 0 } };

/** Without those that come to 0. */
function add(counts: Map<string, number>, name: string, count: number): void {
  const sum = (counts.get(name) ?? 0) + count;
  if (sum > 0) counts.set(name, sum);
  else counts.delete(name);
}
