import { ApiError } from '../../errors.ts';
import { isObject, type Json } from '../../json/json-values.ts';

/**
 * How a call ended that has no answer, as it was seen here. `status`: an HTTP status other than 2xx. `said`: an error of the backend in a
 * 200, as an event or as the whole body. `connection`: it failed or broke. `interrupted`: the answer ended before it was complete.
 * `unreadable`: it is not what it should be. `too_large`: it exceeds the limit of one answer.
 */
export type BackendFault =
  | 'status'
  | 'said'
  | 'connection'
  | 'connect_timeout'
  | 'first_token_timeout'
  | 'idle_timeout'
  | 'unreadable'
  | 'interrupted'
  | 'too_large';

/**
 * A backend's own error, in one of the shapes that model servers and proxies use (contract.md#ms13-words-of-refusals). `words` are for the
 * client whose request it was, and for no log or record. `kinds`: its codes and types, in lower case. `param`: the field that it names.
 * `status`: an HTTP status in it.
 */
export type ErrorContent = {
  words: string;
  kinds: readonly string[];
  param?: string;
  status?: number;
  promptTokens?: number;
  contextTokens?: number;
};

/**
 * What is known of the call. `retryAfterMs`: how long the backend asked not to be called. `wasSent`: the complete request was sent, so the
 * request itself may be the cause. `waitedMs`: the time limit that was over.
 */
type Details = {
  cause?: unknown;
  status?: number;
  said?: ErrorContent;
  retryAfterMs?: number | undefined;
  wasSent?: boolean;
  waitedMs?: number;
};

/**
 * A call of a backend without an answer. `message` is for the log and has no words of the backend. What the fault means is decided in one
 * place (`workers/failover/decide-outcome.ts`).
 */
export class BackendError extends Error {
  override readonly name = 'BackendError';
  readonly fault: BackendFault;
  readonly status: number | undefined;
  readonly retryAfterMs: number | undefined;
  readonly wasSent: boolean;
  readonly waitedMs: number | undefined;
  /** No property of its own: a log has all of these, and must not have the words. */
  readonly #said: ErrorContent | undefined;

  constructor(fault: BackendFault, message: string, details: Details = {}) {
    super(message, { cause: details.cause });
    this.fault = fault;
    this.status = details.status;
    this.#said = details.said;
    this.retryAfterMs = details.retryAfterMs;
    this.wasSent = details.wasSent ?? true;
    this.waitedMs = details.waitedMs;
  }

  get said(): ErrorContent | undefined {
    return this.#said;
  }
}

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

/** An engine that is stopped, or that fails, ends its answers with one of these (vLLM, SGLang: `abort`; Mistral, OpenRouter: `error`). */
const reasonsOfBreaks = new Set(['abort', 'aborted', 'error', 'failed', 'cancelled', 'canceled']);

/**
 * Fails with `interrupted` if the reason for an end says that the answer broke off: its end is not that of an answer
 * (contract.md#ms1-complete-answers).
 */
export function requireEnded(reason: unknown): void {
  if (typeof reason !== 'string' || !reasonsOfBreaks.has(reason.toLowerCase())) return;
  throw new BackendError('interrupted', `the backend ended its answer with "${reason}"`);
}

/**
 * The prompt fits into the context of no backend. `field` is the field of the request with the prompt. Coding agents compact their history
 * on the code (contract.md#ms6-context).
 */
export function promptTooLong(field: string, numbers: { promptTokens?: number; contextTokens?: number }): ApiError {
  const { promptTokens, contextTokens } = numbers;
  const size = promptTokens === undefined ? '' : ` It has ${promptTokens} tokens.`;
  const most = contextTokens === undefined ? '' : ` The context has at most ${contextTokens} tokens.`;
  return new ApiError(
    'VALIDATION_ERROR',
    `${field}: the prompt is too long for the context of this model.${size}${most}`,
    {
      fields: {
        ...(promptTokens !== undefined && { prompt_tokens: promptTokens }),
        ...(contextTokens !== undefined && { context_tokens: contextTokens }),
      },
      openAi: { code: contextCode, param: field },
    },
  );
}

const contextCode = 'context_length_exceeded';

export function isPromptTooLong({ openAi }: ApiError): boolean {
  return openAi.code === contextCode;
}
