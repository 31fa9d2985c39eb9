import type { HeldBytes, HeldSource } from './held-bytes.ts';

/** The most bytes that a source delivers at once: Node reads this much from a connection. */
export const pieceBytes = 65_536;

/** Pauses the sources of bodies, and resumes them when there is room. */
export function createPausedSources<More>({
  held,
  onResume = () => {},
}: {
  held: HeldBytes<More>;
  /** Called before a source is resumed. */
  onResume?: (body: HeldSource<More>) => void;
}) {
  const paused = new Set<HeldSource<More>>();

  function resume(body: HeldSource<More>): void {
    if (!paused.delete(body)) return;
    onResume(body);
    body.source.resume();
  }

  return {
    has: (body: HeldSource<More>) => paused.has(body),
    count: () => paused.size,
    remove: (body: HeldSource<More>) => paused.delete(body),
    /** False if it is paused already. */
    pause(body: HeldSource<More>): boolean {
      if (paused.has(body)) return false;
      body.source.pause();
      paused.add(body);
      return true;
    },
    /** Resumes the oldest body, and only as many others as there is room for the next piece of each. */
    resumeWhatFits(): void {
      const oldest = held.oldest();
      if (oldest !== undefined) resume(oldest);
      let expectedBytes = 0;
      for (const body of paused) {
        if (held.isFull(expectedBytes)) return;
        if (!held.mayContinue(body)) continue;
        resume(body);
        expectedBytes += pieceBytes;
      }
    },
  };
}
