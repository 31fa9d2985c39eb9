import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { DeclaredFault } from './declared-faults.ts';
import { describeFault, type FaultResult, verdicts } from './describe-faults.ts';
import { notesVariable, readNotes } from './fault-notes.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const lookEveryMs = 200;

type Options = {
  /** Whether these are all faults. Otherwise only these tests of their files run. */
  isAll: boolean;
  say: (text: string) => void;
};

/**
 * Runs these tests one after another, so that they do not affect each other's measurements, and reports each as it ends. `problem`: a
 * failure that is not the failure of a fault's test.
 */
export async function runFaults(
  faults: readonly DeclaredFault[],
  { isAll, say }: Options,
): Promise<{ results: FaultResult[]; problem: string | undefined }> {
  if (faults.length === 0) return { results: [], problem: undefined };
  const folder = await mkdtemp(join(tmpdir(), 'faults-'));
  const [notes, log] = [join(folder, 'notes'), join(folder, 'log')];
  await writeFile(notes, '');
  const files = [...new Set(faults.map(({ file }) => file))];
  const matches = isAll ? [] : faults.map(({ id }) => `--match=${id}:*`);
  const output = openSync(log, 'w');
  const child = spawn('ava', ['--config', 'test/faults/ava.config.mjs', '--concurrency=1', ...matches, ...files], {
    cwd: root,
    env: { ...process.env, [notesVariable]: notes },
    stdio: ['ignore', output, output],
  });
  const ended = once(child, 'exit').then(([code]) => code as number | null);
  let over = false;
  void ended.then(() => {
    over = true;
  });

  const begun = new Set<string>();
  const results = new Map<string, FaultResult>();
  for (let last = false; !last; ) {
    last = over;
    const soFar = readNotes(notes);
    for (const { id } of soFar) begunOnce(id);
    const done = faults.filter(({ id }) => soFar.some((note) => note.id === id && note.is !== 'begun'));
    for (const one of verdicts(last ? faults : done, soFar)) {
      if (results.has(one.id)) continue;
      results.set(one.id, one);
      say(`\n${describeFault(one)}`);
    }
    if (!last) await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, lookEveryMs))]);
  }

  function begunOnce(id: string): void {
    const fault = faults.find((one) => one.id === id);
    if (begun.has(id) || fault === undefined) return;
    begun.add(id);
    say(`\n[${begun.size}/${faults.length}] ${id} ${fault.done} …`);
  }

  const all = [...results.values()];
  const isHarmed = (await ended) !== 0 || all.some(({ verdict }) => verdict === 'FAILED');
  const problem = isHarmed ? await whatWentWrong(log) : undefined;
  await rm(folder, { recursive: true, force: true });
  return { results: all, problem };
}

const linesShown = 60;

async function whatWentWrong(log: string): Promise<string> {
  const lines = (await readFile(log, 'utf8')).split('\n').filter((line) => !line.includes('✔'));
  return ['', 'The end of the output of the tests:', ...lines.slice(-linesShown)].join('\n');
}
