import { registerHooks } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import { redisVariable } from '../stack/redis-variable.ts';
import { sizeVariable } from '../support/size.ts';
import { declareAll } from './declarations.ts';
import { runFilesInTurn } from './file-turns.ts';
import { root } from './test-files.ts';
import { runAtOnce } from './tests-at-once.ts';

/** The environment variable with the files of each process, as JSON. */
export const sharesVariable = 'TEST_SHARES';

const shareSchema = z.object({
  files: z.array(z.string()),
  testsAtOnce: z.int().optional(),
  redis: z.literal('cluster').optional(),
});

/** Loads the files of the process of this number, each with its own test function. */
export async function shareProcess(number: number): Promise<void> {
  const shares = z.array(shareSchema).parse(JSON.parse(process.env[sharesVariable] ?? '[]'));
  const { files: paths, testsAtOnce, redis } = shares[number] ?? { files: [] };
  if (redis !== undefined) Object.assign(process.env, { [redisVariable]: redis, [sizeVariable]: 'small' });
  if (testsAtOnce !== undefined) runAtOnce(testsAtOnce);
  const files = new Map(paths.map((path) => [pathToFileURL(join(root, path)).href, path]));
  registerHooks({
    resolve(specifier, context, next) {
      const file = files.get(context.parentURL ?? '');
      if (specifier !== 'ava' || file === undefined) return next(specifier, context);
      const url = new URL('titled-test.ts', import.meta.url);
      url.searchParams.set('file', redis === undefined ? file : `${file} on a Redis Cluster`);
      if (testsAtOnce === undefined) url.searchParams.set('fileByFile', '');
      return { url: url.href, shortCircuit: true };
    },
  });
  for (const url of files.keys()) await import(url);
  declareAll();
  if (testsAtOnce === undefined) await runFilesInTurn();
}
