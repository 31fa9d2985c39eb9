let free = 1;
const waiting: (() => void)[] = [];

/** Must be called before the first test starts. More tests than this would only wait for each other's processor time. */
export function runAtOnce(tests: number): void {
  free = tests;
}

/** Runs `work` when there is room for one more test in this process. */
export async function inTurn<T>(work: () => T): Promise<Awaited<T>> {
  if (free > 0) free--;
  else await new Promise<void>((resolve) => waiting.push(resolve));
  try {
    return await work();
  } finally {
    const next = waiting.shift();
    if (next === undefined) free++;
    else next();
  }
}
