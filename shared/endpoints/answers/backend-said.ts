import { isObject } from '../../is-object.ts';
import { BackendError, type BackendFault, type ErrorContent } from './backend-error.ts';

type Json = Readonly<Record<string, unknown>>;

const plainTextMax = 500;
/** The rest of longer words is not read: no rule has to search a whole answer. */
const wordsMax = 2_000;
const kindMax = 80;
const kindFields = ['code', 'type', 'status', 'error_type', 'error_code', 'reason'] as const;

/** Reads the error in an event or in a body of JSON. Undefined if it is none. */
export function readSaid(value: unknown): ErrorContent | undefined {
  if (Array.isArray(value)) return value.length === 1 ? readSaid(value[0]) : undefined;
  if (!isObject(value)) return undefined;
  const { error, errors } = value;
  const inner = error ?? (Array.isArray(errors) ? errors[0] : undefined) ?? undefined;
  if (inner === undefined && !saysError(value)) return undefined;
  const levels = [value, inner, isObject(inner) ? inner.error : undefined].filter(isObject);
  const words = [inner, value].map(wordsOf).find((found) => found !== '') ?? '';
  return {
    words: beginningOf(words),
    kinds: [...new Set(levels.flatMap(kindsOf))],
    ...numbersOf(levels),
    ...paramOf(levels),
  };
}

/** Reads the body of an error status: JSON, or a short plain text. */
export function readSaidBody(body: string): ErrorContent {
  const nothing = { words: '', kinds: [] };
  try {
    return readSaid(JSON.parse(body)) ?? nothing;
  } catch {
    const text = body.trim();
    const isPlain = text !== '' && text.length <= plainTextMax && !/^[<{[]/.test(text);
    return isPlain ? { ...nothing, words: text } : nothing;
  }
}

/**
 * The error for an event or a whole body that is no answer: the backend's own if it is one, else that it is `unreadable`, or this fault.
 */
export function notAnAnswer(
  value: unknown,
  message: string,
  { cause, fault = 'unreadable' }: { cause?: unknown; fault?: BackendFault } = {},
): BackendError {
  const said = readSaid(value);
  if (said === undefined) return new BackendError(fault, message, { cause });
  return new BackendError('said', 'the backend answered an error', { said });
}

/** Whether an object without `error` is an error: it has words where errors have them. */
function saysError({ message, detail, errors }: Json): boolean {
  return wordsOf(message) !== '' || wordsOf(detail) !== '' || (Array.isArray(errors) && errors.length > 0);
}

/** Up to the last space, because half a credential would not be recognized. An ellipsis shows rules that it is no whole sentence. */
function beginningOf(words: string): string {
  return words.length <= wordsMax ? words : words.slice(0, wordsMax).replace(/\S+$/, '…');
}

function wordsOf(value: unknown): string {
  if (typeof value === 'string') return value.trim();
  if (Array.isArray(value)) return value.slice(0, 10).map(wordsOf).filter(Boolean).join('; ');
  if (!isObject(value)) return '';
  const { message, detail, msg, loc, error } = value;
  if (typeof msg === 'string') return Array.isArray(loc) ? `${loc.slice(0, 20).map(String).join('.')}: ${msg}` : msg;
  return [message, detail, error].map(wordsOf).find((found) => found !== '') ?? '';
}

function kindsOf(level: Json): string[] {
  return kindFields
    .map((field) => level[field])
    .filter((kind) => typeof kind === 'string')
    .filter((kind) => kind !== 'error' && kind.length <= kindMax)
    .map((kind) => kind.toLowerCase());
}

/** `n_prompt_tokens` and `n_ctx` are llama.cpp's. */
function numbersOf(levels: readonly Json[]): Partial<ErrorContent> {
  const find = (names: readonly string[], accepts: (found: number) => boolean) =>
    levels.flatMap((level) => names.map((name) => Number(level[name] ?? Number.NaN))).find(accepts);
  const isStatus = (found: number) => Number.isInteger(found) && found >= 400 && found <= 599;
  const isCount = (found: number) => Number.isSafeInteger(found) && found > 0;
  const status = find(['code', 'status', 'status_code', 'statusCode'], isStatus);
  const promptTokens = find(['n_prompt_tokens'], isCount);
  const contextTokens = find(['n_ctx'], isCount);
  return {
    ...(status !== undefined && { status }),
    ...(promptTokens !== undefined && { promptTokens }),
    ...(contextTokens !== undefined && { contextTokens }),
  };
}

function paramOf(levels: readonly Json[]): Partial<ErrorContent> {
  const param = levels.map((level) => level.param).find((found) => typeof found === 'string' && found !== '');
  return typeof param === 'string' ? { param: param.slice(0, kindMax) } : {};
}
