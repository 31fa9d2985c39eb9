import { readFileSync } from 'node:fs';

/** The first lines of a script: what it may do, and where it takes its time from. */
const firstLines = /^#!lua.*\n(?:local clock = .*\n)?/;
const includeLine = /^ *-- include (\S+)$/gm;

/**
 * The script at this place as Redis loads it. Its constants stand behind its first lines. A line `-- include path` is replaced by
 * `path.lua`, relative to the script. A part with functions is included in the branch that uses it: each function that a call makes costs about 0.1 µs.
 */
export function loadLua(script: URL, constants: Readonly<Record<string, number | string>> = {}): string {
  const locals = Object.entries(constants).map(([name, value]) => `local ${name} = ${JSON.stringify(value)}\n`);
  return readFileSync(script, 'utf8')
    .replace(firstLines, (lines) => lines + locals.join(''))
    .replace(includeLine, (_, name) => readFileSync(new URL(`${name}.lua`, script), 'utf8').trimEnd());
}
