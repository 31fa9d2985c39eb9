import { createHash, type Hash, hkdfSync } from 'node:crypto';
import { oncePerObject } from '../concurrency/single-flight.ts';
import { isObject } from '../json/json-values.ts';
import type { Affinity, Endpoint, PromptParts } from './definition/endpoint.ts';

/**
 * Returns the keys of a valid request (contract.md#af1-keys). None if its model has no choice between backends, or if the prompt is too
 * short.
 */
export type AffinityKeys = (
  endpoint: Endpoint,
  request: object,
  asked: { planFile: RoutedModels; model: string; account: string },
) => Affinity;

/** What requests have in common that go to the same backend (contract.md#af4-affinity-of-a-model). */
export const affinities = ['prefix', 'account', 'none'] as const;

/** Models and backends of the plan file, as far as keys need them. */
type RoutedModels = {
  models: Readonly<Record<string, { affinity?: (typeof affinities)[number] | undefined; backends: readonly string[] }>>;
  backends: Readonly<Record<string, { location: string; cacheSalt?: boolean | undefined }>>;
};

/** 64 bits in base64. */
const keyLength = 11;
/** Of what follows the head. With it, a request has at most five. */
const laterKeysMax = 4;
/** More messages before the first answer hardly tell prompts apart. */
const openingMessagesMax = 64;
/** A shorter beginning has no key: computing about 256 tokens again costs less than choosing a busier backend. */
const shortestCharacters = 1_024;
/** A longer message has a boundary here, and at each doubling up to the longest. What is behind that hardly tells texts apart. */
const firstBoundary = 4_096;
const longestCharacters = 65_536;

/** Creates a function for keys under a secret, so that no client can choose what they are. Without a `pepper` there are no keys. */
export function createAffinityKeys(pepper: string | undefined): AffinityKeys {
  if (pepper === undefined) return () => noAffinity;
  const secret = Buffer.from(hkdfSync('sha256', pepper, '', 'svc affinity keys', 32));
  const under = (...names: string[]) => createHash('sha256').update(secret).update(JSON.stringify(names));
  const ofAnyAccount = under('prompt');

  return function affinityKeys(endpoint, request, { planFile, model, account }) {
    const rule = rulesOf(planFile).get(model);
    if (rule === undefined) return noAffinity;
    if (rule.by === 'account') return { keys: [keyOf(under('account', account))], isFirstTurn: false };
    const { prompt_cache_key: name } = request as { prompt_cache_key?: unknown }; // any request may have it
    // A name belongs to the account that chose it.
    if (typeof name === 'string' && name !== '')
      return { keys: [keyOf(under('name', account, name))], isFirstTurn: false };
    const parts = endpoint.request.partsOf?.(request);
    if (parts === undefined) return noAffinity;
    const keys = promptKeys(rule.isSalted ? under('prompt', account) : ofAnyAccount.copy(), parts);
    return { keys, isFirstTurn: isFirstTurn(parts.messages) };
  };
}

const noAffinity: Affinity = { keys: [], isFirstTurn: false };

type AffinityRule = { by: 'prefix' | 'account'; isSalted: boolean };

/** By model. A model without affinity, or with a single on-prem backend, has no rule. */
const rulesOf = oncePerObject(({ models, backends }: RoutedModels) => {
  const rules = Object.entries(models).flatMap(([name, { affinity = 'prefix', backends: names }]) => {
    const chosen = [...new Set(names)].flatMap((each) => backends[each] ?? []);
    if (affinity === 'none' || chosen.filter(({ location }) => location === 'on-prem').length < 2) return [];
    const rule: AffinityRule = { by: affinity, isSalted: chosen.some(({ cacheSalt }) => cacheSalt === true) };
    return [[name, rule] as const];
  });
  return new Map(rules);
});

/** The backends that keys may choose. */
export const backendsWithKeys = oncePerObject(({ models, backends }: RoutedModels): ReadonlySet<string> => {
  const names = [...rulesOf({ models, backends }).keys()].flatMap((model) => models[model]?.backends ?? []);
  return new Set(names.filter((name) => backends[name]?.location === 'on-prem'));
});

/** Does not change `hash`. */
function keyOf(hash: Hash): string {
  return hash.copy().digest('base64url').slice(0, keyLength);
}

/**
 * The keys of a prompt. The opening of a chat is what comes before the first answer of a model. It is the same in each turn, so its end is
 * the deepest boundary. Later messages are only read if it is too short for a key.
 */
function promptKeys(hash: Hash, { head, messages }: PromptParts): string[] {
  const prefix = createPrefix(hash);
  for (const value of head) prefix.add(textOf(value).text);
  return [...prefix.keyHere(), ...keysAfterHead(prefix, messages).slice(-laterKeysMax)];
}

function keysAfterHead(prefix: Prefix, messages: PromptParts['messages']): string[] {
  if (typeof messages === 'string')
    return keysOf(boundariesIn(prefix, messages, doublings(shortestCharacters, messages)));
  const answerAt = firstAnswerIn(messages);
  const opening = answerAt < 0 ? messages : messages.slice(0, answerAt);
  const keys = openingKeys(prefix, opening.slice(0, openingMessagesMax));
  if (keys.length > 0) return keys;
  for (const message of messages.slice(opening.length)) {
    prefix.add(textOf(message).text);
    const [key] = prefix.keyHere();
    if (key !== undefined) return [key];
  }
  return [];
}

/** A text may continue an earlier one. */
function isFirstTurn(messages: PromptParts['messages']): boolean {
  return typeof messages !== 'string' && firstAnswerIn(messages) < 0;
}

/** -1 if there is none. A chat may begin with a greeting of the assistant, which is no answer. */
function firstAnswerIn(messages: readonly unknown[]): number {
  const askedAt = messages.findIndex((message) => !isAnswer(message));
  return messages.findIndex((message, index) => index > askedAt && isAnswer(message));
}

/** The client's last mark is the deepest boundary. One at the end of the opening does not count: it moves on with each turn. */
function openingKeys(prefix: Prefix, opening: readonly unknown[]): string[] {
  const boundaries = opening.flatMap((message) => {
    const { text, marks } = textOf(message);
    return boundariesIn(prefix, text, [...doublings(firstBoundary, text), ...marks, text.length], marks);
  });
  const marked = boundaries.slice(0, -1).findLastIndex(({ isMarked }) => isMarked);
  const upToMark = keysOf(boundaries.slice(0, marked + 1));
  return upToMark.length > 0 ? upToMark : keysOf(boundaries);
}

/** `keys`: one, or none if the beginning is too short. */
type Boundary = { keys: readonly string[]; isMarked: boolean };

function keysOf(boundaries: readonly Boundary[]): string[] {
  return boundaries.flatMap(({ keys }) => keys);
}

/** Adds the text up to the last of these places. */
function boundariesIn(
  prefix: Prefix,
  text: string,
  ends: readonly number[],
  marks: readonly number[] = [],
): Boundary[] {
  let from = 0;
  return [...new Set(ends)]
    .toSorted((one, other) => one - other)
    .map((end) => {
      prefix.add(text.slice(from, end));
      from = end;
      return { keys: prefix.keyHere(), isMarked: marks.includes(end) };
    });
}

/** This length and its doublings, as far as the text is longer. */
function doublings(first: number, { length }: string): number[] {
  const ends: number[] = [];
  for (let end = first; end < length && end <= longestCharacters; end *= 2) ends.push(end);
  return ends;
}

function createPrefix(hash: Hash) {
  let length = 0;
  return {
    add(text: string): void {
      hash.update(text.length > longestCharacters ? ends(text) : text);
      length += text.length;
    },
    keyHere: (): string[] => (length < shortestCharacters ? [] : [keyOf(hash)]),
  };
}

type Prefix = ReturnType<typeof createPrefix>;

/** A text that is too long to be hashed with each request, by its ends and its length. */
function ends(text: string): string {
  return `${text.slice(0, firstBoundary)}${text.length}${text.slice(-firstBoundary)}`;
}

/** Messages of an assistant, and items of a response without a role, such as calls of tools. */
function isAnswer(message: unknown): boolean {
  return isObject(message) && (message.role === 'assistant' || message.role === undefined);
}

/** `marks`: where the last two parts end that the client has marked as the end of a prefix to be cached (`cache_control`). */
type MarkedText = { text: string; marks: readonly number[] };

/** What a model reads of a message or of a list of parts, without the marks. */
function textOf(value: unknown): MarkedText {
  if (typeof value === 'string') return { text: value, marks: [] };
  if (Array.isArray(value)) return textOfParts('', value);
  if (!isObject(value)) return { text: '', marks: [] };
  const { role, content, tool_calls: calls } = value;
  const called = calls == null ? '' : JSON.stringify(calls);
  if (typeof content === 'string') return { text: `${role}\n${content}${called}`, marks: [] };
  if (Array.isArray(content)) return textOfParts(`${role}\n`, content, called);
  return { text: JSON.stringify(shortened(value)), marks: [] };
}

function textOfParts(before: string, parts: readonly unknown[], after = ''): MarkedText {
  let text = before;
  let marks: number[] = [];
  for (const part of parts) {
    const { cache_control: mark, ...rest } = isObject(part) ? part : { text: String(part), cache_control: undefined };
    text += typeof rest.text === 'string' ? rest.text : JSON.stringify(shortened(rest));
    if (mark != null) marks = [...marks.slice(-1), text.length];
  }
  return { text: text + after, marks };
}

/** Media can be as large as a body. It is a text of a part, or of an object in it. */
function shortened(part: object, depth = 0): object {
  const short = Object.entries(part).map(([name, value]: [string, unknown]) => {
    if (typeof value === 'string' && value.length > longestCharacters) return [name, ends(value)];
    return [name, depth === 0 && isObject(value) ? shortened(value, 1) : value];
  });
  return Object.fromEntries(short);
}
