import { registerHooks } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import ava from 'ava';
import { onDiskVariable } from '../stack/on-disk-variable.ts';
import { redisVariable } from '../stack/redis-variable.ts';
import { declareAll, runAtOnce, runFilesInTurn, writeTimes } from './file-turns.ts';
import { root, type Share } from './test-files.ts';

/*
 * Why files share processes. AVA runs each test file in a process of its own, which takes 1.3 s of a processor to start and to load what
 * most tests import: ten minutes for all files. Worker threads take as long. So `main.ts` writes a file for each process, which AVA runs
 * and which loads many test files. AVA allows a title once in a process, gives hooks to all tests of it, starts all of its tests at once
 * and cannot be told otherwise. Therefore the test files get their own copy of AVA's function (`titled-test.ts`), found by the importing
 * file: it prefixes titles, keeps hooks to their file, and lets few tests, or one file after another, run at a time (`file-turns.ts`).
 * Run on its own (`npm run test:one`), each file imports AVA itself.
 */

/** Loads the files of a process, each with its own test function. */
export async function shareProcess({ files: paths, testsAtOnce, isAlone = false, redis }: Share): Promise<void> {
  if (redis !== undefined) Object.assign(process.env, { [redisVariable]: redis });
  if (isAlone) runAtOnce(Number.POSITIVE_INFINITY);
  else if (testsAtOnce !== undefined) runAtOnce(testsAtOnce);
  const files = new Map(paths.map((path) => [pathToFileURL(join(root, path)).href, path]));
  if (process.env[onDiskVariable]) await import('../stack/without-disk-sync.ts');
  registerHooks({
    resolve(specifier, context, next) {
      const file = files.get(context.parentURL ?? '');
      if (specifier !== 'ava' || file === undefined) return next(specifier, context);
      const url = new URL('titled-test.ts', import.meta.url);
      url.searchParams.set('file', redis === undefined ? file : `${file} on a Redis Cluster`);
      if (isAlone) url.searchParams.set('alone', '');
      else if (testsAtOnce === undefined) url.searchParams.set('fileByFile', '');
      return { url: url.href, shortCircuit: true };
    },
  });
  process.once('exit', writeTimes);
  for (const url of files.keys()) await import(url);
  declareAll();
  reportLeak();
  if (!isAlone && testsAtOnce === undefined) await runFilesInTurn();
}

const leakReportedAfterMs = 30_000;

/** Something that keeps the process alive, in Node's own list of them, which has no types. */
type Handle = {
  constructor: { name: string };
  spawnfile?: string;
  remotePort?: number;
  localPort?: number;
  pid?: number;
};

/**
 * Reports what keeps this process alive half a minute after its last test. AVA fails it four minutes after the last event of the run,
 * without saying why.
 */
function reportLeak(): void {
  ava.after.always('what keeps the process alive is reported', () => {
    setTimeout(() => {
      const { _getActiveHandles: handles } = process as unknown as { _getActiveHandles: () => Handle[] };
      const shown = handles().map(({ constructor: { name }, spawnfile, pid, remotePort, localPort }) =>
        [name, spawnfile, pid, localPort, remotePort].filter((part) => part !== undefined).join(' '),
      );
      console.error(`still alive after its tests: ${process.getActiveResourcesInfo().join(', ')}; ${shown.join(', ')}`);
    }, leakReportedAfterMs).unref();
  });
}
