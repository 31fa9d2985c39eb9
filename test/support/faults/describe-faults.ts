import type { Note } from './fault-notes.ts';
import type { Fault } from './fault-test.ts';

export type Verdict = 'ok' | 'FAILED' | 'not run';
export type FaultResult = Fault & { verdict: Verdict; seen: readonly string[]; ms: number };

/** The verdict of each fault. A fault that began and never ended, or without any note, has failed. */
export function verdicts(faults: readonly Fault[], notes: readonly Note[]): FaultResult[] {
  return faults.map((fault) => {
    const own = notes.filter(({ id }) => id === fault.id);
    const last = own.find(({ is }) => is === 'FAILED') ?? own.at(-1);
    if (last === undefined) return { ...fault, verdict: 'FAILED', seen: ['it is missing from the results'], ms: 0 };
    const { is, seen, ms } = last;
    if (is === 'begun') return { ...fault, verdict: 'FAILED', seen: [...seen, 'it did not finish'], ms };
    return { ...fault, verdict: is, seen, ms };
  });
}

export function describeFault({ id, done, promised, verdict, seen, ms }: FaultResult): string {
  const [first = 'no figures; its assertions hold', ...others] = seen;
  return [
    `${id.padEnd(4)} ${verdict}${ms > 0 ? `, ${(ms / 1_000).toFixed(1)} s` : ''}`,
    `     done      ${done}`,
    `     promised  ${promised}`,
    `     ${verdict === 'not run' ? 'because ' : 'seen    '}  ${first}`,
    ...others.map((text) => `               ${text}`),
  ].join('\n');
}

export function summary(results: readonly FaultResult[]): string {
  const count = (verdict: Verdict) => results.filter((one) => one.verdict === verdict).length;
  const failed = results.filter(({ verdict }) => verdict === 'FAILED').map(({ id }) => id);
  const names = failed.length === 0 ? '' : ` (${failed.join(', ')})`;
  return `${results.length} faults: ${count('ok')} ok, ${failed.length} FAILED${names}, ${count('not run')} not run`;
}
