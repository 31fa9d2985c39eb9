import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

/** Where a stack keeps its data, `.data/` beside `package.json`. */
export const dataDirectory = fileURLToPath(new URL('../../.data', import.meta.url));

/** In that folder, while a stack runs. */
const standingFile = 'stack.json';

const standingSchema = z.object({
  issuer: z.string(),
  clientSecret: z.string(),
  service: z
    .object({ url: z.string(), redisUrl: z.string(), databaseUrl: z.string(), planFile: z.string() })
    .optional(),
});

/**
 * How to reach the running stack: its identity provider, the secret that tokens are requested with, and, where it runs on this
 * machine, its API and stores.
 */
export type Standing = z.infer<typeof standingSchema>;

/** Readable by its owner only. */
export async function writeStanding(standing: Standing, directory = dataDirectory): Promise<void> {
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, standingFile), JSON.stringify(standing), { mode: 0o600 });
}

export async function removeStanding(directory = dataDirectory): Promise<void> {
  await rm(join(directory, standingFile), { force: true });
}

/** Throws when no stack runs. After a stack was killed its file is still there. */
export async function readStanding(directory = dataDirectory): Promise<Standing> {
  try {
    return standingSchema.parse(JSON.parse(await readFile(join(directory, standingFile), 'utf8')));
  } catch (cause) {
    throw new Error(notRunning, { cause });
  }
}

export const notRunning = 'No stack is running. Start one with npm start, then try again.';
