import type { RunningProcess } from '../stack/stack.ts';

/** Polls a process's metrics until a line matches. The test's own timeout ends the wait. */
export async function awaitMetric({ operationsUrl }: RunningProcess, line: RegExp): Promise<void> {
  while (true) {
    const text = await (await fetch(`${operationsUrl}/metrics`)).text();
    if (line.test(text)) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
