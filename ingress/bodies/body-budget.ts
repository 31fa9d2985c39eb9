import { ApiError } from '../../shared/errors.ts';
import { type Clock, systemClock } from '../callers/issuer/clock.ts';

/** A body that arrives: it can be made to wait. A request of Node's is one. */
type Source = { pause(): unknown; resume(): unknown };

/** One body's part of the budget. */
export interface BodyShare {
  /** Aborted, with the `ApiError` to answer, when this body makes room for others. Created on first use. */
  readonly signal: AbortSignal;
  /** Whether its source may go on after so many more bytes. */
  hasRoomFor(bytes: number): boolean;
  /** Counts bytes that have arrived. The source is paused while there is no room for more. */
  add(bytes: number): void;
  /** All of the body is there, or it has failed: another one may go on. Its bytes stay counted. */
  arrived(): void;
  /** Its bytes are no longer held. Idempotent. */
  leave(): void;
  hasLeft(): boolean;
  /** Whether the source is paused now, or was for most of so many milliseconds. */
  isHeldUp(ofMs: number): boolean;
}

export interface BodyBudget {
  /** The share of a body that begins, sent by this account. Undefined if the budget is used up. */
  enter(account: string, source: Source): BodyShare | undefined;
  bytesHeld(): number;
}

type Sender = { bytes: number; arriving: Set<Arrival> };
type Arrival = {
  source: Source;
  sender: Sender;
  bytes: number;
  /** It is slow from then on, unless more of it arrives before. */
  slowAt: number;
  pausedAt: number;
  pausedMs: number;
  makeRoom: AbortController | undefined;
  leave: () => void;
};

/** What a source gives at once, at most: Node reads so much of a connection. */
const pieceBytes = 65_536;
/** A body is slow once it is five seconds behind this rate. The time for which it is paused does not count. */
const slowBytesPerSecond = 65_536;
const behindMsMax = 5_000;
const lookEveryMs = 250;

/**
 * Bounds the bodies that this process holds, from their first byte until they are queued or their request has ended. What counts is
 * what has arrived, not what was announced, so a client that announces much and sends little takes no room. If the budget is used
 * up, no new body begins, and of those that have begun only the oldest goes on; the others wait. So the bound is exceeded by one
 * body at most, and by the piece that each source had already read.
 *
 * A few clients must not take all of it for long. The bodies of one account wait in the same way beyond a quarter of the budget. And
 * while the budget is used up, the largest of the bodies that are slow makes room, four times a second. A fast body never does.
 */
export function createBodyBudget({ bytesMax, clock = systemClock }: { bytesMax: number; clock?: Clock }): BodyBudget {
  const senderBytesMax = bytesMax / 4;
  const senders = new Map<string, Sender>();
  /** In the order in which they began. */
  const arriving = new Set<Arrival>();
  const paused = new Set<Arrival>();
  let bytesHeld = 0;
  let isLooking = false;

  function mayGoOn(arrival: Arrival, moreBytes = 0): boolean {
    const { sender } = arrival;
    const hasRoom = bytesHeld + moreBytes < bytesMax || isFirst(arriving, arrival);
    return hasRoom && (sender.bytes + moreBytes < senderBytesMax || isFirst(sender.arriving, arrival));
  }

  function controllerOf(arrival: Arrival): AbortController {
    arrival.makeRoom ??= new AbortController();
    return arrival.makeRoom;
  }

  function pause(arrival: Arrival): void {
    if (paused.has(arrival)) return;
    arrival.source.pause();
    arrival.pausedAt = clock.now();
    paused.add(arrival);
  }

  function resume(arrival: Arrival): void {
    if (!paused.delete(arrival)) return;
    arrival.pausedMs += clock.now() - arrival.pausedAt;
    arrival.slowAt = clock.now() + behindMsMax;
    arrival.source.resume();
  }

  /** The oldest in any case, and of the others no more than there is room for the next piece of each. */
  function resumeWhatMay(): void {
    const [oldest] = arriving;
    if (oldest !== undefined) resume(oldest);
    let expected = bytesHeld;
    for (const arrival of paused) {
      if (expected >= bytesMax) return;
      if (!mayGoOn(arrival)) continue;
      resume(arrival);
      expected += pieceBytes;
    }
  }

  function lookForRoom(): void {
    isLooking = bytesHeld >= bytesMax;
    if (!isLooking) return;
    const now = clock.now();
    let largest: Arrival | undefined;
    for (const arrival of arriving) {
      if (arrival.slowAt > now || paused.has(arrival)) continue;
      if (arrival.bytes > (largest?.bytes ?? 0)) largest = arrival;
    }
    if (largest !== undefined) {
      largest.leave();
      controllerOf(largest).abort(tooSlow());
    }
    clock.after(lookEveryMs, lookForRoom);
  }

  function senderOf(account: string): Sender {
    const sender = senders.get(account) ?? { bytes: 0, arriving: new Set() };
    senders.set(account, sender);
    return sender;
  }

  return {
    enter(account, source) {
      if (bytesHeld >= bytesMax) return undefined;
      const sender = senderOf(account);
      const slowAt = clock.now() + behindMsMax;
      const arrival: Arrival = {
        ...{ source, sender, leave, makeRoom: undefined },
        ...{ bytes: 0, slowAt, pausedAt: 0, pausedMs: 0 },
      };
      let left = false;
      arriving.add(arrival);
      sender.arriving.add(arrival);

      function add(bytes: number): void {
        if (left) return;
        const now = clock.now();
        const slowAt = Math.max(arrival.slowAt, now) + (bytes * 1_000) / slowBytesPerSecond;
        arrival.slowAt = Math.min(slowAt, now + behindMsMax);
        arrival.bytes += bytes;
        sender.bytes += bytes;
        bytesHeld += bytes;
        if (!mayGoOn(arrival)) pause(arrival);
        if (bytesHeld >= bytesMax && !isLooking) lookForRoom();
      }

      function arrived(): void {
        arriving.delete(arrival);
        sender.arriving.delete(arrival);
        paused.delete(arrival);
        resumeWhatMay();
      }

      function leave(): void {
        if (left) return;
        left = true;
        sender.bytes -= arrival.bytes;
        bytesHeld -= arrival.bytes;
        arrived();
        if (sender.bytes === 0 && sender.arriving.size === 0) senders.delete(account);
      }

      return {
        get signal() {
          return controllerOf(arrival).signal;
        },
        hasRoomFor: (bytes) => mayGoOn(arrival, bytes),
        add,
        arrived,
        leave,
        hasLeft: () => left,
        isHeldUp: (ofMs) => paused.has(arrival) || arrival.pausedMs > ofMs / 2,
      };
    },
    bytesHeld: () => bytesHeld,
  };
}

/** For bodies so small that the bound of connections bounds them as well. */
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

function tooSlow(): ApiError {
  const message = 'The service has no memory left for the bodies of requests, and this one arrived slowly. Retry.';
  return new ApiError('REQUEST_TIMEOUT', message);
}

function isFirst<Item>(items: ReadonlySet<Item>, item: Item): boolean {
  const [first] = items;
  return first === item;
}
