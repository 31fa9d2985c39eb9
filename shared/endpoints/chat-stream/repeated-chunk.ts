import { randomUUID } from 'node:crypto';
import { ownText } from '../../json/texts.ts';
import { searchedCharactersMin } from '../answers/written-text.ts';
import { type Chunk, parseChunk, usageIn, writtenIn } from './follow-answer.ts';

/** A chunk that was not parsed: the model's text in it, and the JSON for the client. */
type RepeatedChunk = { text: string; sent: string };

/** Returns the JSON for the client from parsed data, on one line. */
type Present = (data: string, chunk: Chunk) => string;

/** The strings that differ from chunk to chunk: the model's text, and OpenAI's padding. */
const differing = /"(content|text|reasoning_content|reasoning|obfuscation)"\s*:\s*"/g;
const padding = 'obfuscation';

/** The parts before, between and after those strings. `sent`: the same of the JSON for the client, if that is not the data as it came. */
type Pattern = { names: string[]; given: string[]; sent: string[] | undefined };

/** Limits the learning from a backend whose chunks differ in more than their text. */
const lessonsMin = 4;
const readsPerLesson = 4;

/** Random, so no backend can send it. */
const mark = randomUUID();

/**
 * Reads chunks without parsing them if they differ from an earlier chunk of their stream only in their text, as nearly all do
 * (decisions.md#chunks-that-repeat-are-not-parsed).
 */
export function createRepeatedChunks(present: Present) {
  let pattern: Pattern | undefined;
  let lessons = 0;
  let reads = 0;

  return {
    /** Undefined for data that has to be parsed. */
    read(data: string): RepeatedChunk | undefined {
      const repeated = pattern && readBy(pattern, data);
      if (repeated !== undefined) reads++;
      return repeated;
    },
    /** `chunk` was parsed from this data, and may be the first of many similar ones. */
    learn(data: string, chunk: Chunk): void {
      if (lessons > lessonsMin + reads / readsPerLesson || !isMereText(chunk)) return;
      lessons++;
      pattern = patternOf(data, present) ?? pattern;
    },
  };
}

/** Called for nearly every token. Takes 0.4 µs instead of 1.3 µs for parsing and as much for checking bounds and shape. */
function readBy({ names, given, sent: around }: Pattern, data: string): RepeatedChunk | undefined {
  let text = '';
  let sent = '';
  let at = 0;
  for (let index = 0; ; index++) {
    const before = given[index] as string; // there is one more than there are names
    // Takes two thirds of the time of `startsWith`.
    if (data.slice(at, at + before.length) !== before) return undefined;
    at += before.length;
    if (around !== undefined) sent += around[index];
    if (index === names.length) break;
    const end = endOfString(data, at);
    // A longer text may have what is no text, as an image.
    if (end < 0 || end - at >= searchedCharactersMin) return undefined;
    const string = data.slice(at, end);
    const value = unescaped(string);
    if (value === undefined) return undefined;
    if (names[index] !== padding) text += value;
    if (around !== undefined) sent += value === string ? string : JSON.stringify(value).slice(1, -1);
    at = end;
  }
  if (text === '' || at < data.length) return undefined;
  // The text is kept until the end of the stream for counting. A slice would keep the complete event in memory.
  return { text: ownText(text), sent: around === undefined ? data : sent };
}

/** The index of the closing quote; below 0 if there is none. */
function endOfString(json: string, start: number): number {
  let end = json.indexOf('"', start);
  while (end > start && isEscaped(json, end, start)) end = json.indexOf('"', end + 1);
  return end;
}

function isEscaped(json: string, at: number, start: number): boolean {
  let before = at;
  while (before > start && json[before - 1] === '\\') before--;
  return (at - before) % 2 === 1;
}

/** Control characters, which are invalid in a JSON string, and the start of an escape. */
const unusual = /[^ -[\]-\uffff]/;

function unescaped(string: string): string | undefined {
  if (!unusual.test(string)) return string;
  try {
    return JSON.parse(`"${string}"`);
  } catch {
    return undefined;
  }
}

/** Only its text matters. */
function isMereText(chunk: Chunk): boolean {
  const [choice, ...others] = chunk.choices;
  return (
    choice !== undefined &&
    others.length === 0 &&
    (usageIn(chunk) ?? choice.usage) == null &&
    !choice.finish_reason &&
    (choice.delta ?? choice.text) != null &&
    choice.delta?.tool_calls == null &&
    writtenIn(choice) !== ''
  );
}

/**
 * Undefined if there is no pattern. The strings are replaced by marks: these must then be the model's text, and the JSON for the client
 * must have them in the same order.
 */
function patternOf(data: string, present: Present): Pattern | undefined {
  const given = split(data);
  const marked = given.around.reduce((before, after, index) => `${before}${mark} ${index}${after}`);
  const chunk = parseChunk(marked);
  if (chunk === undefined) return undefined;
  const presented = present(marked, chunk);
  const { names, strings, around } = split(presented);
  const marks = given.names.map((_, index) => `${mark} ${index + 1}`);
  const written = marks.filter((_, index) => given.names[index] !== padding).join('');
  if (writtenIn(chunk.choices[0] ?? {}) !== written) return undefined;
  if (names.join() !== given.names.join() || strings.join() !== marks.join()) return undefined;
  return { names, given: given.around, sent: presented === marked ? undefined : around };
}

function split(json: string) {
  const names: string[] = [];
  const strings: string[] = [];
  const around: string[] = [];
  let from = 0;
  for (const { 0: opening, 1: name = '', index } of json.matchAll(differing)) {
    const start = index + opening.length;
    const end = endOfString(json, start);
    names.push(name);
    strings.push(json.slice(start, end));
    around.push(json.slice(from, start));
    from = end;
  }
  around.push(json.slice(from));
  return { names, strings, around };
}
