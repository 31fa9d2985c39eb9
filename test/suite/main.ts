import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { descriptionVariable, startMongo } from '../support/mongodb/start-mongo.ts';
import { sizeVariable } from '../support/size.ts';
import { clusterFiles } from './cluster-files.ts';
import { prepare } from './prepare.ts';
import { sharesVariable } from './share-process.ts';
import { openTemporaryFolder } from './temporary-folder.ts';
import { clusterShares, root, shareProcesses, testFiles } from './test-files.ts';

const help = `npm test                       the fast tests
npm run test:rest              all others except those that only npm run faults runs, and random and repeated cases at full size
npm run test:all               both
npm run test:one -- <file>     one or more files, with options of ava
npm run test:sized -- [times]  random and repeated cases, at five times the full size, or this many times`;

/** One more than the cores for which the times are promised: a process with its own stacks waits half of the time. */
const processesAtOnce = 3;

const [command, ...args] = process.argv.slice(2);
const times = Number(args[0] ?? 5);
if (command === 'fast') await runFiles(testFiles('fast'), { size: 'small', onCluster: clusterFiles('fast') });
else if (command === 'rest') await runFiles(testFiles('rest'), { size: '1', onCluster: clusterFiles('rest') });
else if (command === 'sized' && times > 0) await runFiles(testFiles('sized'), { size: String(times) });
else if (command === 'one' && args.length > 0) process.exitCode = await runAva(args);
else {
  console.error(help);
  process.exitCode = 2;
}

type Run = { size: string; onCluster?: readonly string[] };

async function runFiles(files: readonly string[], { size, onCluster = [] }: Run): Promise<void> {
  await prepare();
  await using folder = await openTemporaryFolder();
  const mongo = await startMongo();
  await using _server = 'url' in mongo ? mongo : undefined;
  const { shares, alone, ...own } = shareProcesses(files);
  const sequences = [...own.sequences, ...clusterShares(onCluster)];
  const inProcesses = [...sequences, ...shares];
  const groups = inProcesses.map((_, number) => `test/suite/shared-${number}.group.ts`);
  const missing = groups.filter((file) => !existsSync(join(root, file)));
  if (missing.length > 0) throw new Error(`${missing.join(', ')} must exist, like the other groups`);
  const others = weave(groups.slice(sequences.length), alone);
  const beside = Math.ceil(sequences.length / 2);
  // Sequences take longest, so they start early. They mostly wait, so one other process computes beside two of them.
  const ordered = [...weave(groups.slice(0, sequences.length), others.slice(0, beside)), ...others.slice(beside)];
  process.exitCode = await runAva(['--concurrency', String(processesAtOnce), ...ordered], {
    TEST_ORDER: JSON.stringify(ordered),
    TMPDIR: folder.path,
    [sizeVariable]: size,
    [sharesVariable]: JSON.stringify(inProcesses),
    ...('url' in mongo && { MONGODB_URL: mongo.url, [descriptionVariable]: mongo.description }),
  });
}

/** Spreads `some` evenly among `others`. */
function weave(some: readonly string[], others: readonly string[]): string[] {
  const step = others.length / some.length;
  const after = (index: number) => others.slice(Math.round(index * step), Math.round((index + 1) * step));
  return some.length === 0 ? [...others] : some.flatMap((file, index) => [file, ...after(index)]);
}

/** Returns the exit code. */
async function runAva(args: readonly string[], env: Record<string, string> = {}): Promise<number> {
  const child = spawn('ava', ['--config', 'test/suite/ava.config.mjs', ...args], {
    cwd: root,
    env: { NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/compile'), ...process.env, ...env },
    stdio: 'inherit',
  });
  const [code] = await once(child, 'exit');
  return (code as number | null) ?? 1;
}
