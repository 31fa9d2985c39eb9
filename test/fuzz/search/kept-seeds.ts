import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** An input that is kept in a file: `valid-…`, which is accepted, or `hostile-…`. */
export type Seed = { name: string; bytes: Buffer };

export const seedsFolder = fileURLToPath(new URL('../seeds', import.meta.url));

/** The seeds of this target, ordered by name, so that one number gives the same search on every machine. */
export function keptSeeds(target: string): Seed[] {
  const folder = join(seedsFolder, target);
  const names = readdirSync(folder).toSorted();
  return names.map((name) => ({ name, bytes: readFileSync(join(folder, name)) }));
}
