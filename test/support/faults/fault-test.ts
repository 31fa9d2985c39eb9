import type { ExecutionContext } from 'ava';
import { skipTest } from '../skip-test.ts';
import { noteFault } from './fault-notes.ts';

/**
 * A fault that the service must survive. `id`: its number in the list, and a letter if the fault has several tests; those of
 * batches begin with B, combined faults with A. `done` is what happens to the service, `promised` what is guaranteed then, in
 * the words of the page `failures.md`.
 */
export type Fault = { id: string; done: string; promised: string };

/** One or more measured figures, in words: `64 of 64 answered`. */
export type See = (seen: string) => void;

type Declare = (title: string, implementation: (t: ExecutionContext) => Promise<void>) => void;
type Register = Declare & { skip: Declare };
/** Why it cannot run here, otherwise undefined. */
type Hindered = { notRun?: string | undefined };

/**
 * Declares the test of a fault. Its title is `done` and `promised`, and its observations are logged. If it cannot run here, it is skipped
 * as `skipTest` says. Its verdict is AVA's, so it is noted after the test and its teardowns.
 */
export function faultTest(
  test: Register,
  { id, done, promised, notRun }: Fault & Hindered,
  run: (t: ExecutionContext, see: See) => Promise<unknown>,
): void {
  const title = `${id}: ${done}: ${promised}`;
  if (notRun !== undefined) {
    noteFault({ id, is: process.env.CI === 'true' ? 'FAILED' : 'not run', seen: [notRun], ms: 0 });
    skipTest(test, { title, reason: notRun });
    return;
  }
  test(title, async (t) => {
    const seen: string[] = [];
    const see: See = (text) => {
      seen.push(text);
      t.log(text);
    };
    noteFault({ id, is: 'begun', seen, ms: 0 });
    const begunAt = performance.now();
    // Teardowns run in reverse order, after AVA has checked that the test ended in time and made assertions.
    t.teardown(() => noteFault({ id, is: t.passed ? 'ok' : 'FAILED', seen, ms: performance.now() - begunAt }));
    try {
      await run(t, see);
    } catch (error) {
      seen.push(firstLine(error));
      throw error;
    }
  });
}

function firstLine(error: unknown): string {
  return String(error instanceof Error ? error.message : error).split('\n')[0] ?? '';
}
