import { readFileSync } from 'node:fs';

/** The first lines of a script: its flags, and its clock (contract.md#m4-one-clock). */
const firstLines = /^#!lua.*\n(?:local clock = .*\n)?/;
const includeLine = /^ *-- include (\S+)$/gm;

/**
 * Reads the script at this URL as Redis loads it (contract.md#m10-script-files). Its constants follow its first lines. A line
 * `-- include path` is replaced by the text of `path.lua`, relative to the script. A part with functions is included in the branch that uses
 * it: each function that a call creates costs about 0.1 µs.
 */
export function loadLua(script: URL, constants: Readonly<Record<string, number | string>> = {}): string {
  const locals = Object.entries(constants).map(([name, value]) => `local ${name} = ${JSON.stringify(value)}\n`);
  return withParts(script).replace(firstLines, (lines) => lines + locals.join(''));
}

function withParts(script: URL): string {
  const text = readFileSync(script, 'utf8').trimEnd();
  return text.replace(includeLine, (_, name) => withParts(new URL(`${name}.lua`, script)));
}
