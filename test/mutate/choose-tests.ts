import { dirname } from 'node:path';
import { importsOf, type SourceFile } from '../support/source-files.ts';

/** Tests of the complete service: too slow to run for each mutant, and they say little about one file. */
const wholeService = /^test\/(bench|console|faults|flows|mutate|soak|stack)\//;

/**
 * Returns the test files for mutants of this file: those named for it (`test/<path>.test.ts`, `test/<path>-*.test.ts`) and those that
 * import it. If there are none, returns the tests with the fewest imports in between. If some of them are in the folder of the file's own
 * tests, returns only these. Type imports do not count, and tests of the complete service are left out.
 */
export function chooseTests(files: readonly SourceFile[], mutated: string): string[] {
  const importers = importersOf(files);
  const named = files.map(({ path }) => path).filter((path) => isNamedFor(path, mutated));
  let level = new Set([mutated]);
  const seen = new Set(level);
  while (level.size > 0) {
    level = new Set([...level].flatMap((path) => importers.get(path) ?? []).filter((path) => !seen.has(path)));
    for (const path of level) seen.add(path);
    const tests = new Set([...named, ...[...level].filter(isUnitTest)]);
    const own = [...tests].filter((path) => dirname(path) === `test/${dirname(mutated)}`);
    if (tests.size > 0) return (own.length > 0 ? own : [...tests]).sort();
  }
  return [];
}

function isNamedFor(path: string, mutated: string): boolean {
  const stem = `test/${mutated.replace(/\.ts$/, '')}`;
  return isTest.test(path) && (path.replace(isTest, '') === stem || path.startsWith(`${stem}-`));
}

/** Nightly tests take too long. */
const isTest = /\.(test|slow)\.ts$/;
const isUnitTest = (path: string) => isTest.test(path) && !wholeService.test(path);

function importersOf(files: readonly SourceFile[]): Map<string, string[]> {
  const importers = new Map<string, string[]>();
  for (const { path, text } of files) {
    for (const imported of importsOf(path, text.replace(/^import type [^;]*;/gm, ''))) {
      importers.set(imported, [...(importers.get(imported) ?? []), path]);
    }
  }
  return importers;
}
