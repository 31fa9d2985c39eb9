import type { ExecutionContext } from 'ava';
import { noteFault } from './fault-notes.ts';

/**
 * One of the faults that the service is built to stand. `id`: its number in the list and a letter where a fault has several
 * tests; batches have B before it, what happens all at once has A. `done` is what befalls the service, `promised` what holds
 * then, in the words of the README.
 */
export type Fault = { id: string; done: string; promised: string };

/** One measured figure or more, in words: `64 of 64 answered`. */
export type See = (seen: string) => void;

type Declare = (title: string, implementation: (t: ExecutionContext) => Promise<void>) => void;
type Register = Declare & { skip: Declare };
/** Why it cannot be run here; undefined where it can. */
type Hindered = { notRun?: string | undefined };

/**
 * A test that is one of the list: its title is what is done and promised, and what was seen is told beside it. Where it cannot
 * be run it is reported as skipped, and fails where CI=true.
 */
export function faultTest(
  test: Register,
  { id, done, promised, notRun }: Fault & Hindered,
  run: (t: ExecutionContext, see: See) => Promise<unknown>,
): void {
  const title = `${id}: ${done}: ${promised}`;
  if (notRun !== undefined) {
    declareNotRun(test, { id, title, reason: notRun });
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
    const ended = () => performance.now() - begunAt;
    try {
      await run(t, see);
    } catch (error) {
      noteFault({ id, is: 'FAILED', seen: [...seen, firstLine(error)], ms: ended() });
      throw error;
    }
    noteFault({ id, is: 'ok', seen, ms: ended() });
  });
}

type NotRun = { id: string; title: string; reason: string };

function declareNotRun(test: Register, { id, title, reason }: NotRun): void {
  if (process.env.CI === 'true') {
    test(title, async (t) => t.fail(`it has to be run where CI=true: ${reason}`));
    return;
  }
  noteFault({ id, is: 'not run', seen: [reason], ms: 0 });
  // Said here as well: a skipped test has no log of its own.
  console.error(`\n*** FAULT ${id} IS NOT RUN: ${reason}\n`);
  test.skip(title, async () => {});
}

function firstLine(error: unknown): string {
  return String(error instanceof Error ? error.message : error).split('\n')[0] ?? '';
}
