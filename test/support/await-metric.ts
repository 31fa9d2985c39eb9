import type { RunningProcess } from '../stack/stack.ts';

/** Reads a process's metrics until they have such a line; the test's own time-out ends the wait. */
export async function awaitMetric({ operationsUrl }: RunningProcess, line: RegExp): Promise<void> {
  while (true) {
    const text = await (await fetch(`${operationsUrl}/metrics`)).text();
    if (line.test(text)) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
