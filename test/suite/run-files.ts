import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';
import { onDiskVariable } from '../stack/on-disk-variable.ts';
import { descriptionVariable, startMongo } from '../support/mongodb/start-mongo.ts';
import { sizeVariable } from '../support/size.ts';
import { timesVariable } from './file-turns.ts';
import { prepare } from './prepare.ts';
import { openTemporaryFolder } from './temporary-folder.ts';
import { clusterShares, root, type Share, shareProcesses, usesMongo, weave } from './test-files.ts';

/** One more than the cores for which the times are promised: a process with its own stacks waits half of the time. */
const processesAtOnce = 3;
const slowestShown = 20;

/** Of ava and of all files. */
export type Outcome = { code: number; passed: number; failed: number };

/** `programs`: a folder that comes first in the path of programs. */
type Run = { size: string; onCluster?: readonly string[]; programs?: string };

/** Runs test files in a few processes (`share-process.ts`), and prints which ones took longest. */
export async function runFiles(files: readonly string[], { size, onCluster = [], programs }: Run): Promise<Outcome> {
  await prepare(files);
  await using folder = await openTemporaryFolder();
  console.log(`Temporary files: ${folder.path}${folder.isOnDisk ? ', on a disk that no store waits for' : ''}`);
  const started = [...files, ...onCluster].some(usesMongo) ? await startMongo() : undefined;
  await using mongo = started && 'url' in started ? started : undefined;
  using written = writeGroups(orderOf(files, onCluster));
  const { groups } = written;
  const times = join(folder.path, 'times');
  const outcome = { code: 0, passed: 0, failed: 0 };
  outcome.code = await runAva(['--concurrency', String(processesAtOnce), ...groups], {
    env: {
      TEST_ORDER: JSON.stringify(groups),
      TMPDIR: folder.path,
      ...(folder.isOnDisk && { [onDiskVariable]: 'true' }),
      [sizeVariable]: size,
      ...(programs !== undefined && { PATH: `${programs}${delimiter}${process.env.PATH}` }),
      [timesVariable]: times,
      ...(mongo && { MONGODB_URL: mongo.url, [descriptionVariable]: mongo.description }),
    },
    onLine(line) {
      if (/^ *✔ /.test(line)) outcome.passed++;
      else if (/^ *✘ /.test(line)) outcome.failed++;
    },
  });
  // Something failed outside of a test, or no test ran.
  if (outcome.failed === 0 && (outcome.code !== 0 || outcome.passed === 0)) outcome.failed = 1;
  for (const line of slowest(times)) console.log(line);
  return outcome;
}

/** Sequences take longest, so they start early. They mostly wait, so one other process computes beside two of them. */
function orderOf(files: readonly string[], onCluster: readonly string[]): Share[] {
  const { sequences: own, others } = shareProcesses(files);
  const sequences = [...own, ...clusterShares(onCluster)];
  const beside = Math.ceil(sequences.length / 2);
  return [...weave(sequences, others.slice(0, beside)), ...others.slice(beside)];
}

/** Writes a file for each process, which AVA runs as a test file. They are removed at the end. */
function writeGroups(shares: readonly Share[]): Disposable & { groups: string[] } {
  const folder = `test/suite/groups/${process.pid}`;
  mkdirSync(join(root, folder), { recursive: true });
  const groups = shares.map((share, number) => {
    const path = `${folder}/${String(number).padStart(2, '0')}.ts`;
    const text = `import { shareProcess } from '../../share-process.ts';\n\nawait shareProcess(${JSON.stringify(share)});\n`;
    writeFileSync(join(root, path), text);
    return path;
  });
  return { groups, [Symbol.dispose]: () => rmSync(join(root, folder), { recursive: true, force: true }) };
}

type AvaOptions = { env?: Record<string, string>; onLine?: (line: string) => void };

/** Returns the exit code. */
export async function runAva(args: readonly string[], { env = {}, onLine }: AvaOptions = {}): Promise<number> {
  const child = spawn('ava', ['--config', 'test/suite/ava.config.mjs', ...args], {
    cwd: root,
    env: { NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/compile'), ...process.env, ...env },
    stdio: ['inherit', onLine === undefined ? 'inherit' : 'pipe', 'inherit'],
  });
  if (child.stdout !== null) {
    createInterface({ input: child.stdout }).on('line', (line) => {
      console.log(line);
      onLine?.(line);
    });
  }
  const [code] = await once(child, 'close');
  return (code as number | null) ?? 1;
}

/** The files whose tests took longest. The time of tests that ran at once is added up. */
function slowest(file: string): string[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
  const times = lines.map((line) => JSON.parse(line) as { path: string; ms: number }); // written by our own processes
  const longest = times.sort((one, other) => other.ms - one.ms).slice(0, slowestShown);
  return ['\nSlowest files:', ...longest.map(({ path, ms }) => `${(ms / 1_000).toFixed(1).padStart(7)} s  ${path}`)];
}
