import { ApiError } from '../../shared/errors.ts';
import { type Clock, systemClock } from '../../shared/process/answer-budget.ts';
import { createHeldBytes, createPausedSources, type HeldSource, type Source } from '../../shared/process/held-bytes.ts';

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
