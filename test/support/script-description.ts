import { readFileSync } from 'node:fs';

const root = new URL('../../', import.meta.url);

/** The first sentence of a Lua script, by its path from the project folder. A new process sends the text of a script at first. */
export function scriptDescription(path: string): string {
  const [, text] = /^-- (.{20,}?)\./m.exec(readFileSync(new URL(path, root), 'utf8')) ?? [];
  if (text === undefined) throw new Error(`${path} has no description`);
  return text;
}
