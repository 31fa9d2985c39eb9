import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

/** Where a stack keeps its data, `.data/` beside `package.json`. */
export const dataDirectory = fileURLToPath(new URL('../../.data', import.meta.url));

/** In that folder, while a stack runs. */
const stackFile = 'stack.json';

const stackSchema = z.object({
  issuer: z.string(),
  clientSecret: z.string(),
  service: z
    .object({ url: z.string(), redisUrl: z.string(), databaseUrl: z.string(), planFile: z.string() })
    .optional(),
});

/**
 * How to reach the running stack: its identity provider, the secret for requesting tokens, and, if it runs on this machine, its API and
 * stores.
 */
export type RunningStack = z.infer<typeof stackSchema>;

/** Writes the file with access for its owner only. */
export async function writeRunningStack(runningStack: RunningStack, directory = dataDirectory): Promise<void> {
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, stackFile), JSON.stringify(runningStack), { mode: 0o600 });
}

export async function removeRunningStack(directory = dataDirectory): Promise<void> {
  await rm(join(directory, stackFile), { force: true });
}

/** Throws when no stack runs. The file of a killed stack is not removed. */
export async function readRunningStack(directory = dataDirectory): Promise<RunningStack> {
  try {
    return stackSchema.parse(JSON.parse(await readFile(join(directory, stackFile), 'utf8')));
  } catch (cause) {
    throw new Error(notRunning, { cause });
  }
}

export const notRunning = 'No stack is running. Start one with npm start, then try again.';
