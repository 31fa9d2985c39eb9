import type { Clock } from '../clock.ts';
import type { HeldBodies, HeldBody } from './held-bodies.ts';

/** The most bytes that a source delivers at once: Node reads this much from a connection. */
const pieceBytes = 65_536;

/** Pauses the sources of bodies, and resumes them when there is room. `behindMsMax`: how long a resumed body has until it is slow. */
export function createPausedBodies({
  bodies,
  clock,
  behindMsMax,
}: {
  bodies: HeldBodies;
  clock: Clock;
  behindMsMax: number;
}) {
  const paused = new Set<HeldBody>();

  function resume(body: HeldBody): void {
    if (!paused.delete(body)) return;
    body.pausedMs += clock.now() - body.pausedAt;
    body.slowAt = clock.now() + behindMsMax;
    body.source.resume();
  }

  return {
    has: (body: HeldBody) => paused.has(body),
    remove: (body: HeldBody) => paused.delete(body),
    pause(body: HeldBody): void {
      if (paused.has(body)) return;
      body.source.pause();
      body.pausedAt = clock.now();
      paused.add(body);
    },
    /** Resumes the oldest body in any case, and only as many others as there is room for the next piece of each. */
    resumeWhatFits(): void {
      const [oldest] = bodies.arriving;
      if (oldest !== undefined) resume(oldest);
      let expectedBytes = 0;
      for (const body of paused) {
        if (bodies.isFull(expectedBytes)) return;
        if (!bodies.mayContinue(body)) continue;
        resume(body);
        expectedBytes += pieceBytes;
      }
    },
  };
}
