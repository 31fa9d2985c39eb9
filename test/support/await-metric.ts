import type { RunningProcess } from '../stack/stack.ts';

const answersWithinMs = 30_000;
const reachedWithinMs = 180_000;

/** Polls a process's metrics until a line matches. Fails with the lines of this metric if none does for three minutes. */
export async function awaitMetric({ operationsUrl }: RunningProcess, line: RegExp): Promise<void> {
  const [, name = ''] = /(svc_\w+)/.exec(line.source) ?? [];
  for (const until = performance.now() + reachedWithinMs; ; ) {
    const signal = AbortSignal.timeout(answersWithinMs);
    const text = await (await fetch(`${operationsUrl}/metrics`, { signal })).text();
    if (line.test(text)) return;
    if (performance.now() > until) {
      const present = text.split('\n').filter((one) => one.startsWith(name));
      throw new Error(`no line became ${line}: ${present.join(', ')}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
