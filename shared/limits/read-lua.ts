import { readFileSync } from 'node:fs';

type Part = 'standing' | 'leases' | 'stream-ids';

/** The first lines of a script: what it may do, and where it takes its time from. */
const firstLines = /^#!lua.*\n(?:local clock = .*\n)?/;

/** The script at this place, with the parts that it has in common with others put in behind its first lines. */
export function readLua(script: URL, parts: readonly Part[]): string {
  const common = parts.map((part) => readFileSync(new URL(`./${part}.lua`, import.meta.url), 'utf8')).join('');
  return readFileSync(script, 'utf8').replace(firstLines, (lines) => lines + common);
}
