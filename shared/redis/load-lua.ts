import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import type { Redis } from './connections.ts';

type Value = string | Buffer | number;
type Words<Text extends string> = Text extends `${infer Word} ${infer Rest}` ? Word | Words<Rest> : Text;
type RequiredName<Word extends string> = Exclude<Word, '' | `${string}?` | `...${string}`>;
type OptionalName<Word extends string> = Word extends `${infer Name}?` ? Name : never;
type ListName<Word extends string> = Word extends `...${infer Name}` ? Name : never;
type NamedValues<Text extends string, Each> = { [Name in RequiredName<Words<Text>>]: Each } & {
  [Name in OptionalName<Words<Text>>]?: Each | undefined;
} & { [Name in ListName<Words<Text>>]: readonly Each[] };

/**
 * The names of a script's keys and arguments in the order in which they are sent, separated by spaces: `name`, `name?` for one that may be
 * left out, and `...name`, as the last, for a list. The script has each as a local of this name: text, nil if it was left out, or a list of
 * texts. Constants become locals too, and no call sends them. `numbers` has lists of names of integers in an answer (`createReadNumbers`):
 * in a script, `$list` in a format and `valuesOf.list(table)` as its arguments stand for all of them.
 */
type Names<Keys extends string, Args extends string> = {
  keys: Keys;
  args?: Args;
  constants?: Readonly<Record<string, number | string>>;
  numbers?: Readonly<Record<string, string>>;
};
type Script<Keys extends string, Args extends string> = { name: string; lua: string; keys: Keys; args: Args };

/** The first lines of a script: its flags, and its clock (contract.md#m4-one-clock). */
const firstLines = /^#!lua.*\n(?:local clock = .*\n)?/;
const includeLine = /^ *-- include (\S+)$/gm;

/**
 * Reads the script at this URL as Redis loads it (contract.md#m10-script-files): names follow its first lines. A line `-- include path` is
 * replaced by the text of `path.lua`, relative to the script. A part with functions is included in the branch that uses it: each function
 * that a call creates costs about 0.1 µs.
 */
export function loadLua<const Keys extends string, const Args extends string = ''>(
  url: URL,
  { keys, args, constants = {}, numbers = {} }: Names<Keys, Args>,
): Script<Keys, Args> {
  const locals = Object.entries(constants).map(([name, value]) => `local ${name} = ${JSON.stringify(value)}\n`);
  const names = [...locals, linesFor('KEYS', keys), linesFor('ARGV', args ?? '')].join('');
  let lua = withParts(url).replace(firstLines, (lines) => lines + names);
  for (const [list, text] of Object.entries(numbers)) {
    const fields = text.split(' ');
    lua = lua.replaceAll(`$${list}`, fields.map(() => '%d').join(' '));
    lua = lua.replace(new RegExp(`\\bvaluesOf\\.${list}\\((\\w+)\\)`, 'g'), (_, table) =>
      fields.map((field) => `${table}.${field}`).join(', '),
    );
  }
  return { name: `svc:${basename(url.pathname, '.lua')}`, lua, keys, args: args ?? ('' as Args) };
}

/** What was left out before others is the first key again, because a cluster has no empty key, or empty text. */
function linesFor(table: 'KEYS' | 'ARGV', text: string): string {
  const words = text.split(' ').filter(Boolean);
  const list = words.find((word) => word.startsWith('...'))?.slice(3);
  const names = words.filter((word) => !word.startsWith('...'));
  const nothing = table === 'KEYS' ? names[0] : "''";
  const lines =
    names.length === 0 ? [] : [`local ${names.map(bare).join(', ')} = unpack(${table}, 1, ${names.length})`];
  for (const name of names.filter((word) => word.endsWith('?')).map(bare))
    lines.push(`if ${name} == ${nothing} then ${name} = nil end`);
  if (list !== undefined)
    lines.push(
      `local ${list} = {} for at = ${names.length + 1}, #${table} do ${list}[#${list} + 1] = ${table}[at] end`,
    );
  return lines.map((line) => `${line}\n`).join('');
}

const bare = (word: string) => word.replace(/^\.\.\.|\?$/g, '');

function withParts(script: URL): string {
  const text = readFileSync(script, 'utf8').trimEnd();
  return text.replace(includeLine, (_, name) => withParts(new URL(`${name}.lua`, script)));
}

/** Returns a script as a function of its named keys and arguments. It is loaded once per connection and again after a Redis restart. */
export function loadScript<Keys extends string, Args extends string>(redis: Redis, script: Script<Keys, Args>) {
  redis.defineCommand(script.name, { lua: script.lua });
  // defineCommand adds this method. It is read now: otherwise another script loaded under the same name would run in its place.
  const run = (redis as unknown as Record<string, (...values: Value[]) => Promise<unknown>>)[script.name];
  if (run === undefined) throw new Error(`the script ${script.name} was not loaded`);
  const first = script.keys.split(' ').find((name) => !name.startsWith('...'));
  const [keys = [], args = []] = [script.keys, script.args].map((text) => text.split(' ').filter(Boolean).map(bare));
  return (given: NamedValues<Keys, string> & NamedValues<Args, Value>): Promise<unknown> => {
    const from = given as UntypedValues; // it has these names
    const values: Value[] = ['0'];
    append(values, keys, from, first === undefined ? '' : String(from[first]));
    values[0] = String(values.length - 1);
    append(values, args, from, '');
    return run.apply(redis, values);
  };
}

type UntypedValues = Readonly<Record<string, Value | Value[] | undefined>>;

/** `nothing` stands for what is left out before others. What is left out at the end is not sent. */
function append(values: Value[], names: readonly string[], from: UntypedValues, nothing: Value): void {
  let end = values.length;
  for (const name of names) {
    const value = from[name];
    if (Array.isArray(value)) for (const each of value) values.push(textOf(each));
    else values.push(value === undefined ? nothing : textOf(value));
    if (Array.isArray(value) ? value.length > 0 : value !== undefined) end = values.length;
  }
  values.length = end;
}

function textOf(value: Value): string | Buffer {
  return typeof value === 'number' ? String(value) : value;
}

/** Readers of a script's answer: words separated by spaces. Each throws on anything else. */

export function wordsOf(answer: unknown): string[] {
  if (typeof answer !== 'string') throw new Error('the answer of a script is not text');
  return answer.split(' ');
}

export function wordOf(word: string | undefined): string {
  if (word === undefined) throw new Error('a word is missing in the answer of a script');
  return word;
}

/** Returns a reader of integers by their names (load-lua.ts), from the first word on. */
export function createReadNumbers<Names extends string>(names: Names) {
  const all = names.split(' ');
  return (words: readonly string[]): Record<Words<Names>, number> => {
    const numbers: Record<string, number> = {};
    for (let index = 0; index < all.length; index++) numbers[all[index] ?? ''] = intOf(words[index]);
    return numbers as Record<Words<Names>, number>; // it has all of these names
  };
}

export function intOf(word: string | undefined): number {
  const number = Number(wordOf(word) || Number.NaN); // Number('') would be 0
  if (!Number.isSafeInteger(number)) throw new Error(`a script answered "${word}" instead of an integer`);
  return number;
}
