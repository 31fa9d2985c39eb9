import { phases } from './judge.ts';
import type { Result } from './run-attack.ts';

/** An attack and what came of it. Three figures are before, during and after it. */
export function tell({ attack, tally, observed, measured, missed }: Result): string {
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
    `${attack.id.padEnd(4)} ${missed.length === 0 ? 'ok' : 'MISSED'}, ${attack.name}`,
    row('does', [attack.does]),
    row('got', [got.join(', ') || 'nothing']),
    row('waits', waits),
    row('memory', memory),
    row('processor', [...processor, `the machine ${three((phase) => percent(measured[phase].machineShare))} %`]),
    row('event loop', [`late by at most: ${late.join(', ')}`]),
    ...(missed.length === 0 ? [] : [row('missed', missed)]),
  ].join('\n');
}

function row(name: string, lines: readonly string[]): string {
  return lines.map((line, index) => `     ${(index === 0 ? name : '').padEnd(11)}${line}`).join('\n');
}

export function summary(results: readonly Pick<Result, 'attack' | 'missed'>[]): string {
  const missed = results.filter((result) => result.missed.length > 0).map(({ attack }) => attack.id);
  const names = missed.length === 0 ? '' : ` (${missed.join(', ')})`;
  return `${results.length} attacks: ${results.length - missed.length} ok, ${missed.length} MISSED${names}`;
}
