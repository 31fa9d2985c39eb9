import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { ApiError } from '../../shared/errors.ts';
import { type Clock, systemClock } from '../../shared/process/answer-budget.ts';
import { createHeldBytes, createPausedSources, type HeldSource, type Source } from '../../shared/process/held-bytes.ts';
import { overloadError } from './request-headers.ts';

/** One body's share of the budget. */
export interface BodyShare {
  /** Aborted, with the `ApiError` to answer, when this body makes room for others. Created on first use. */
  readonly signal: AbortSignal;
  /** Whether more of the body may arrive after this many further bytes. */
  hasRoomFor(bytes: number): boolean;
  /** Counts bytes that have arrived. Pauses the source while there is no room for more. */
  add(bytes: number): void;
  /** The body is complete or has failed, so another one may continue. Its bytes still count. */
  arrived(): void;
  /** Its bytes are no longer held. Idempotent. */
  leave(): void;
  hasLeft(): boolean;
  /** Whether the source is paused now, or was paused for most of this time. */
  isHeldUp(ofMs: number): boolean;
}

/** `slowAt`: the time after which the body is slow, unless more of it arrives before. */
type Arrival = { slowAt: number; pausedAt: number; pausedMs: number; makeRoom: AbortController | undefined };
type HeldBody = HeldSource<Arrival>;

/** A body is slow once it is five seconds behind this rate. Time for which it is paused does not count. */
const slowBytesPerSecond = 65_536;
const behindMsMax = 5_000;
const lookEveryMs = 250;

/**
 * Bounds the bodies that this process holds, from their first byte until they are queued or their request has ended
 * (contract.md#l1-bodies-in-memory). Only bytes that have arrived count, not the announced length. So a client that announces much and
 * sends little takes no room. Of the bodies that have begun only the oldest continues past the bound. So the bound is exceeded by at most
 * one body, plus the piece that each source had already read.
 *
 * A few clients must not take all of the budget for long. The bodies of one account wait in the same way beyond a quarter of the budget.
 * And while the budget is used up, the largest of the slow bodies makes room, four times a second. A fast body never does.
 */
export function createBodyBudget({ bytesMax, clock = systemClock }: { bytesMax: number; clock?: Clock }) {
  const bodies = createHeldBytes<Arrival>(bytesMax);
  const paused = createPausedSources({
    held: bodies,
    onResume(body) {
      body.pausedMs += clock.now() - body.pausedAt;
      body.slowAt = clock.now() + behindMsMax;
    },
  });
  let isLooking = false;

  function makeRoom(): void {
    isLooking = bodies.isFull();
    if (!isLooking) return;
    const now = clock.now();
    const largest = largestOf(bodies.arriving, (body) => body.slowAt <= now && !paused.has(body));
    if (largest !== undefined) {
      leave(largest);
      controllerOf(largest).abort(tooSlow());
    }
    clock.after(lookEveryMs, makeRoom);
  }

  function add(body: HeldBody, bytes: number): void {
    if (body.hasLeft) return;
    const now = clock.now();
    const slowAt = Math.max(body.slowAt, now) + (bytes * 1_000) / slowBytesPerSecond;
    body.slowAt = Math.min(slowAt, now + behindMsMax);
    bodies.add(body, bytes);
    if (!bodies.mayContinue(body) && paused.pause(body)) body.pausedAt = now;
    if (bodies.isFull() && !isLooking) makeRoom();
  }

  function arrived(body: HeldBody): void {
    bodies.arrived(body);
    paused.remove(body);
    paused.resumeWhatFits();
  }

  function leave(body: HeldBody): void {
    if (body.hasLeft) return;
    bodies.leave(body);
    arrived(body);
  }

  return {
    /** Returns the share of a body that begins. It takes from the part of this holder. Undefined if the budget is used up. */
    enter(holder: string, source: Source): BodyShare | undefined {
      if (bodies.isFull()) return undefined;
      const arrival = { slowAt: clock.now() + behindMsMax, pausedAt: 0, pausedMs: 0, makeRoom: undefined };
      const body = bodies.begin(holder, source, arrival);
      return {
        get signal() {
          return controllerOf(body).signal;
        },
        hasRoomFor: (bytes) => bodies.mayContinue(body, bytes),
        add: (bytes) => add(body, bytes),
        arrived: () => arrived(body),
        leave: () => leave(body),
        hasLeft: () => body.hasLeft,
        isHeldUp: (ofMs) => paused.has(body) || body.pausedMs > ofMs / 2,
      };
    },
    bytesHeld: bodies.bytes,
  };
}

export type BodyBudget = ReturnType<typeof createBodyBudget>;

/** For bodies that are so small that the bound of connections bounds them too. */
export const uncountedBodies: Pick<BodyBudget, 'enter'> = {
  enter: () => ({
    get signal() {
      return new AbortController().signal;
    },
    hasRoomFor: () => true,
    add() {},
    arrived() {},
    leave() {},
    hasLeft: () => true,
    isHeldUp: () => false,
  }),
};

function largestOf(bodies: Iterable<HeldBody>, isSlow: (body: HeldBody) => boolean): HeldBody | undefined {
  let largest: HeldBody | undefined;
  for (const body of bodies) if (isSlow(body) && body.bytes > (largest?.bytes ?? 0)) largest = body;
  return largest;
}

function controllerOf(body: HeldBody): AbortController {
  body.makeRoom ??= new AbortController();
  return body.makeRoom;
}

function tooSlow(): ApiError {
  const message = 'The service has no memory left for the bodies of requests, and this one arrived slowly. Retry.';
  return new ApiError('REQUEST_TIMEOUT', message);
}

/** Bodies from here on are large: parsing and queueing a smaller one blocks the process for a few milliseconds. */
export const largeBytesMin = 1_048_576;
/** Those from here on wait for each other: each block of work with them is longer than others should wait. */
export const pacedBytesMin = 4_194_305;

type Settle = (arrived: number) => void;

/**
 * A body of 16 MiB blocks an ingress and a worker in three pieces of 0.1 s. So those of a sender delay fewer than 1 % of other requests.
 */
const usualBytesPerSecond = 1_048_576;
const waitMsMax = 30_000;
/** A sender that is evicted waits no longer. */
const sendersMax = 10_000;

/**
 * The next such body of a sender waits in proportion to the bytes of the last, whether that was accepted or not. Large bodies of all
 * senders are parsed and queued one after another, `bytesAtOnceMax` at once but at least one, because memory then holds several copies of
 * each (contract.md#v2-large-and-refused-bodies).
 */
export function createLargeBodies({
  bytesAtOnceMax,
  bytesPerSecond = usualBytesPerSecond,
  clock = systemClock,
}: {
  bytesAtOnceMax: number;
  bytesPerSecond?: number;
  clock?: Clock;
}) {
  const freeAt = new LRUCache<string, number>({ max: sendersMax });
  const waiting = new Set<{ bytes: number; begin: () => void }>();
  let bytesAtOnce = 0;

  function beginWhatFits(): void {
    for (const body of waiting) {
      if (bytesAtOnce > 0 && bytesAtOnce + body.bytes > bytesAtOnceMax) return;
      waiting.delete(body);
      bytesAtOnce += body.bytes;
      body.begin();
    }
  }

  const freeFrom = (sender: string) => Math.max(clock.now(), freeAt.get(sender) ?? 0);
  const waitMsOf = (sender: string) => freeFrom(sender) - clock.now();
  const msOf = (bytes: number) => (bytes / bytesPerSecond) * 1_000;

  function take(sender: string, bytes: number): Settle {
    const end = freeFrom(sender) + msOf(bytes);
    freeAt.set(sender, end);
    return (arrived) => {
      // Of its time, what has passed is not given back.
      const givenBackMax = Math.max(0, end - clock.now());
      freeAt.set(sender, freeFrom(sender) + Math.max(msOf(arrived - bytes), -givenBackMax));
    };
  }

  return {
    /**
     * Resolves when the next body of this sender with at least `pacedBytesMin` has its time, with what must be called with the bytes that
     * arrived after all.
     */
    async time(sender: string, bytes: number, signal: AbortSignal): Promise<Settle> {
      signal.throwIfAborted();
      const waitMs = waitMsOf(sender);
      const settle = waitMs > waitMsMax ? undefined : take(sender, bytes);
      try {
        // A refusal at once would cost more than a wait: its client would send the body, and the next one.
        if (waitMs > 0) await unlessAborted(signal, (resolve) => clock.after(Math.min(waitMs, waitMsMax), resolve));
      } catch (error) {
        settle?.(0);
        throw error;
      }
      if (settle === undefined) throw tooFast(waitMs - waitMsMax);
      return settle;
    },
    /**
     * The same for a body that turns out to be so large while it is read. It cannot wait, because what has arrived takes memory: fails with
     * `SERVICE_UNAVAILABLE` before its time.
     */
    timeNow(sender: string, bytes: number): Settle {
      const waitMs = waitMsOf(sender);
      if (waitMs > 0) throw tooFast(waitMs);
      return take(sender, bytes);
    },
    /** Resolves when a body that has arrived may be parsed, with what must be called once it is queued or refused. */
    async place(bytes: number, signal: AbortSignal): Promise<() => void> {
      signal.throwIfAborted();
      await unlessAborted(signal, (resolve, reject) => {
        const body = { bytes, begin: resolve };
        waiting.add(body);
        const forget = clock.after(waitMsMax, () => reject(overloadError('it has too many large bodies to parse')));
        beginWhatFits();
        return () => {
          waiting.delete(body);
          forget();
        };
      });
      let hasLeft = false;
      return () => {
        if (hasLeft) return;
        hasLeft = true;
        bytesAtOnce -= bytes;
        beginWhatFits();
      };
    },
  };
}

/**
 * Large bodies, from before they are read until they are queued. A body is not read before its time, so that it takes no memory. The waits
 * fail with the reason of the signal, and after 30 s with `SERVICE_UNAVAILABLE`.
 */
export type LargeBodies = ReturnType<typeof createLargeBodies>;

/** `wait` returns what is called at the end of the wait, however it ends. */
async function unlessAborted(
  signal: AbortSignal,
  wait: (resolve: () => void, reject: (error: unknown) => void) => () => void,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const end = wait(resolve, reject);
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort);
  try {
    await promise;
  } finally {
    end();
    signal.removeEventListener('abort', abort);
  }
}

function tooFast(waitMs: number): ApiError {
  const message = 'Large bodies of this account arrive faster than the service reads them. Retry later.';
  return new ApiError('SERVICE_UNAVAILABLE', message, { retryAfterMs: Math.max(1_000, Math.round(waitMs)) });
}

/** Parsing and validating 4 MiB blocks the event loop for up to 0.1 s. So refused bodies of a sender get about a tenth of its time. */
const refusedBytesPerSecond = 4_194_304;

/**
 * A refused body costs its sender nothing, but blocks this process for up to 25 ns a byte. So after a refused body the next one of the same
 * sender waits in proportion to the bytes of the refused one (contract.md#v2-large-and-refused-bodies). Accepted bodies add no wait here:
 * the limits of their plan count them, and large ones wait for each other.
 */
export function createRefusedBodies(
  deps: {
    bytesPerSecond?: number;
    /** The longest wait that one body adds. */
    pauseMsMax?: number;
    now?: () => number;
    wait?: (ms: number) => Promise<unknown>;
  } = {},
) {
  const {
    bytesPerSecond = refusedBytesPerSecond,
    pauseMsMax = 5_000,
    now = () => performance.now(),
    wait = sleep,
  } = deps;
  const freeAt = new LRUCache<string, number>({ max: sendersMax });

  return {
    /** Whether `turn` may have to wait. */
    mustWait: (sender: string): boolean => freeAt.has(sender),
    /** Resolves when the next body of this sender may be parsed: at once, unless others were refused shortly before. */
    async turn(sender: string): Promise<void> {
      // Of several that wait, the first may be refused as well: then the others wait again.
      for (let at = freeAt.get(sender); at !== undefined && at > now(); at = freeAt.get(sender)) await wait(at - now());
      freeAt.delete(sender);
    },
    /** Counts a body that was refused. */
    add(sender: string, bytes: number): void {
      const pauseMs = Math.min(pauseMsMax, (bytes / bytesPerSecond) * 1_000);
      freeAt.set(sender, Math.max(now(), freeAt.get(sender) ?? 0) + pauseMs);
    },
  };
}

/** Delays the bodies of senders whose earlier bodies were refused after they had been read: accounts, or networks of devices. */
export type RefusedBodies = ReturnType<typeof createRefusedBodies>;
