import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** Every file of the project as it is on this disk, by its path from the root: files that git tracks or would add. */
export function projectFiles(): string[] {
  const listed = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
  });
  return listed.split('\n').filter((file) => file !== '' && existsSync(join(root, file)));
}

export type SourceFile = { path: string; text: string; imports: string[] };

/** The code that runs in production, each file with the project files that it imports, types included. */
export function productionFiles(): SourceFile[] {
  return sourceFiles(/^(ingress|workers|shared)\/.*\.(ts|mjs)$/);
}

/** The project files whose paths match, each with the project files that it imports, types included. */
export function sourceFiles(wanted: RegExp): SourceFile[] {
  return projectFiles()
    .filter((path) => wanted.test(path))
    .map((path) => {
      const text = readFileSync(join(root, path), 'utf8');
      return { path, text, imports: importsOf(path, text) };
    });
}

/** Static and dynamic imports and re-exports, of relative paths only. */
export function importsOf(path: string, text: string): string[] {
  const specifiers = text.matchAll(/(?:\bfrom|\bimport|\bimport\s*\()\s*['"](\.[^'"]+)['"]/g);
  return [...new Set([...specifiers].map(([, specifier = '']) => join(dirname(path), specifier)))];
}

/** The files of an import cycle, or undefined if there is none. */
export function findCycle(files: readonly Pick<SourceFile, 'path' | 'imports'>[]): string[] | undefined {
  const importsBy = new Map(files.map(({ path, imports }) => [path, imports]));
  const done = new Set<string>();

  function walk(path: string, way: readonly string[]): string[] | undefined {
    if (way.includes(path)) return [...way.slice(way.indexOf(path)), path];
    if (done.has(path)) return undefined;
    for (const next of importsBy.get(path) ?? []) {
      const cycle = walk(next, [...way, path]);
      if (cycle !== undefined) return cycle;
    }
    done.add(path);
    return undefined;
  }

  for (const { path } of files) {
    const cycle = walk(path, []);
    if (cycle !== undefined) return cycle;
  }
  return undefined;
}

/** Every file that these import, directly or indirectly, including themselves. */
export function reachableFrom(files: readonly SourceFile[], starts: readonly string[]): Set<string> {
  const importsBy = new Map(files.map(({ path, imports }) => [path, imports]));
  const reached = new Set(starts);
  for (const path of reached) for (const next of importsBy.get(path) ?? []) reached.add(next);
  return reached;
}
