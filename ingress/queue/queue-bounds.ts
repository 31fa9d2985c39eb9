import type { Lane } from '../../shared/redis/keys.ts';

/** What a request takes of the bounds of its queue, from before its admission until its job starts or can no longer start. */
export interface QueuePlace {
  /** Its job is in the queue: any count that begins from now on includes it. */
  queued(): void;
  /** Gives the place back. Idempotent. */
  leave(): void;
  /** The latest turn of its account's requests for this model. */
  latestTurn: LatestTurn;
}

/** A place that its holder leaves unless another part has taken it over. */
export interface HeldPlace {
  /** From now on, the caller must leave the place. */
  takeOver(): QueuePlace;
}

/**
 * `full` is the bound that the request would exceed. `requestsAtOnceMax` is the fair share of its account while room is short, and
 * undefined while there is enough.
 */
export type QueueEntry = { place: QueuePlace; requestsAtOnceMax: number | undefined } | { full: 'jobs' | 'bytes' };

type PlaceRequest = Parameters<QueueBounds['enter']>[0];

type Model = {
  /** Waiting jobs of all ingresses by the last count, minus our jobs that have left since; undefined if unknown. */
  counted: number | undefined;
  /** Places whose jobs that count may have missed. */
  uncounted: Set<{ queuedAt: number }>;
  /** The accounts with places in this ingress, and how many each has. */
  accounts: Map<string, LatestTurn & { places: number }>;
  /** How many places each holder of a share has in this ingress. */
  places: Map<string, number>;
};

/**
 * Bounds what may wait (contract.md#o8-queue-bounds): for each model `depthMax` jobs of all ingresses, and in this ingress `bytesMax` of
 * payloads. A count is a fraction of a second old. So what this ingress has admitted since is added, and its own jobs that have left are
 * subtracted. A burst can exceed the bound by what other ingresses admit in that time, and a short queue that empties is refilled at once.
 * While the count is unknown, no request is refused because of it. Without requests nothing is counted: then a burst can exceed the bound
 * by the requests that enter before the first count is done.
 *
 * No account may take all of the room (contract.md#o9-fair-share, decisions.md#fair-use-of-a-full-queue). Its share of the jobs limits its
 * requests at once, which admission counts by leases: waiting and running, of all models and ingresses. If the account is past its share of
 * the bytes, 0 requests at once refuse the next request. A request that admission will refuse takes no place: otherwise the refused
 * requests of one account could fill the queue.
 */
export function createQueueBounds({
  models: names,
  depthMax,
  bytesMax,
  now = () => performance.now(),
}: {
  /** The models of the plan file. */
  models: () => readonly string[];
  depthMax: number;
  bytesMax: number;
  now?: () => number;
}) {
  const models = new Map<string, Model>();
  followNames();
  const payloads = createWaitingPayloads(bytesMax);
  let useful = Promise.withResolvers<void>();

  function modelOf(name: string): Model {
    const model = models.get(name) ?? newModel();
    models.set(name, model);
    return model;
  }

  function followNames(): void {
    const known = new Set(names());
    for (const name of known) modelOf(name);
    for (const [name, { accounts, uncounted }] of models) {
      if (!known.has(name) && accounts.size + uncounted.size === 0) models.delete(name);
    }
  }

  function takePlace(model: Model, { account, holder = account, bytes }: PlaceRequest): QueuePlace {
    const waiting = { queuedAt: Number.POSITIVE_INFINITY };
    model.uncounted.add(waiting);
    const ofAccount = model.accounts.get(account) ?? { places: 0, turn: 0 };
    model.accounts.set(account, ofAccount);
    ofAccount.places += 1;
    addTo(model.places, holder, 1);
    payloads.add(holder, bytes);
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
        addTo(model.places, holder, -1);
        payloads.add(holder, -bytes);
        if (!model.uncounted.delete(waiting) && model.counted !== undefined && model.counted > 0) model.counted -= 1;
      },
    };
  }

  return {
    /**
     * Does no I/O: decides by the last count, and by what this ingress has admitted since. `holder`: whose share the request takes, if not
     * that of its account.
     */
    enter(request: { model: string; account: string; holder?: string; bytes: number }): QueueEntry {
      const { model: name, holder = request.account, bytes } = request;
      const model = modelOf(name);
      useful.resolve();
      const jobs = model.counted === undefined ? 0 : model.counted + model.uncounted.size;
      if (jobs >= depthMax) return { full: 'jobs' };
      if (!payloads.haveRoomFor(bytes)) return { full: 'bytes' };
      const places = model.places.get(holder) ?? 0;
      const requestsAtOnceMax = payloads.isOverShare(holder, bytes) ? 0 : shareOf({ jobs, places, depthMax });
      if (requestsAtOnceMax === 0) return { place: noPlace, requestsAtOnceMax };
      return { place: takePlace(model, request), requestsAtOnceMax };
    },
    /** Resolves when a count is needed: a request has entered since the last count, jobs were waiting then, or it failed. */
    whenUseful: (): Promise<void> => useful.promise,
    /** Takes a new count; undefined if counting failed. */
    counted(depths: Depths | undefined): void {
      useful = Promise.withResolvers();
      followNames();
      for (const [name, model] of models) {
        takeCount(model, depths, depths?.of(name, 'interactive'));
        if (model.counted !== 0 || model.uncounted.size > 0) useful.resolve();
      }
    },
    /** Bytes of the payloads of the jobs of this ingress that have not started. */
    bytesWaiting: payloads.bytes,
  };
}

export type QueueBounds = ReturnType<typeof createQueueBounds>;

function newModel(): Model {
  return { counted: undefined, uncounted: new Set(), accounts: new Map(), places: new Map() };
}

function addTo(sums: Map<string, number>, name: string, more: number): void {
  const sum = (sums.get(name) ?? 0) + more;
  if (sum > 0) sums.set(name, sum);
  else sums.delete(name);
}

function takeCount(model: Model, depths: Depths | undefined, jobs: number | undefined): void {
  model.counted = jobs;
  for (const waiting of model.uncounted) {
    if (depths !== undefined && waiting.queuedAt < depths.begunAt) model.uncounted.delete(waiting);
  }
}

/** The most requests at once of an account that has this many places: undefined while there is enough room, 0 past its share. */
function shareOf({ jobs, places, depthMax }: { jobs: number; places: number; depthMax: number }): number | undefined {
  if (jobs <= depthMax / 2) return undefined;
  const share = Math.max(1, Math.floor(depthMax / 4));
  return places < share ? share : 0;
}

/** Counts the bytes of the payloads whose jobs have not started, in total and by holder. */
function createWaitingPayloads(bytesMax: number) {
  const bytesOf = new Map<string, number>();
  let bytesWaiting = 0;
  return {
    bytes: () => bytesWaiting,
    // Otherwise a payload that alone is larger than the bound could never enter.
    haveRoomFor: (bytes: number) => bytesWaiting === 0 || bytesWaiting + bytes <= bytesMax,
    isOverShare(holder: string, bytes: number): boolean {
      const held = bytesOf.get(holder) ?? 0;
      // Otherwise a payload that alone is larger than the share could never enter.
      const isOver = held > 0 && held + bytes > bytesMax / 4;
      return isOver && bytesWaiting + bytes > bytesMax / 2;
    },
    add(holder: string, bytes: number): void {
      bytesWaiting += bytes;
      addTo(bytesOf, holder, bytes);
    },
  };
}

/** The place of a request that will be refused. */
const noPlace: QueuePlace = { queued() {}, leave() {}, latestTurn: { turn: 0 } };
/**
 * How many jobs wait, and the latest turn of each rank that is known to be taken: the one before the head of the model's queue.
 * `begunAt`: the latest time at which the count can have begun, by `performance.now()` of this process.
 */
export type Depths = {
  begunAt: number;
  of: (model: string, lane: Lane) => number;
  takenOf: (model: string, rank: number) => number | undefined;
};
/** The latest turn of an account's requests for one model, kept while any of them waits in this ingress. */
export type LatestTurn = { turn: number };
