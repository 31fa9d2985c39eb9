import { phases } from './judge.ts';
import type { Result } from './run-attack.ts';

/** An attack and its result. Three figures are those before, during and after it. */
export function describeResult({ attack, tally, observed, measured, exceeded }: Result): string {
  const three = (at: (phase: (typeof phases)[number]) => number) => phases.map(at).join(' / ');
  const percent = (share = 0) => Math.round(100 * share);
  const waits = Object.entries(observed.waits).map(
    ([who, waits]) =>
      `${who}: p50 ${three((phase) => waits[phase].p50)} ms, p99 ${three((phase) => waits[phase].p99)} ms, ${three((phase) => waits[phase].answers)} answers`,
  );
  const memory = Object.entries(observed.peakMiB).map(
    ([name, peaks]) => `${name} ${three((phase) => peaks[phase])} MiB, ${measured.after.lastMiB[name]} at the end`,
  );
  const processor = Object.keys(measured.during.cpuShare).map(
    (name) => `${name} ${three((phase) => percent(measured[phase].cpuShare[name]))} %`,
  );
  const late = Object.keys(measured.before.lateMs).map(
    (name) => `${name} ${three((phase) => measured[phase].lateMs[name] ?? Number.NaN)} ms`,
  );
  const got = Object.entries(tally).map(([what, times]) => `${times} × ${what}`);
  return [
    `${attack.id.padEnd(4)} ${exceeded.length === 0 ? 'ok' : 'FAILED'}, ${attack.name}`,
    row('does', [attack.does]),
    row('got', [got.join(', ') || 'nothing']),
    row('waits', waits),
    row('memory', memory),
    row('processor', [...processor, `the machine ${three((phase) => percent(measured[phase].machineShare))} %`]),
    row('event loop', [`late by at most: ${late.join(', ')}`]),
    ...(exceeded.length === 0 ? [] : [row('failed', exceeded)]),
  ].join('\n');
}

function row(name: string, lines: readonly string[]): string {
  return lines.map((line, index) => `     ${(index === 0 ? name : '').padEnd(11)}${line}`).join('\n');
}

export function summary(results: readonly Pick<Result, 'attack' | 'exceeded'>[]): string {
  const exceeded = results.filter((result) => result.exceeded.length > 0).map(({ attack }) => attack.id);
  const names = exceeded.length === 0 ? '' : ` (${exceeded.join(', ')})`;
  return `${results.length} attacks: ${results.length - exceeded.length} ok, ${exceeded.length} failed${names}`;
}
