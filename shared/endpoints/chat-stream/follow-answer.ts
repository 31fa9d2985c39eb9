import { z } from 'zod';
import { isObject, type Json } from '../../json/json-values.ts';
import { BackendError, notAnAnswer, readSaid, requireEnded } from '../answers/backend-error.ts';
import { parseBackendJson } from '../answers/parse-backend-json.ts';
import { tokensIn, withMissing } from '../answers/with-missing.ts';
import { hasContent, writtenText } from '../answers/written-text.ts';
import type { AnswerTokens, ReportedUsage, StreamOptions, WrittenPart } from '../definition/answer-format.ts';

type Choice = Chunk['choices'][number];
type ProgressOptions = { choicesMax: number } & Pick<StreamOptions, 'choices' | 'prompts'>;

/** Follows a streamed answer to its end. */
export function createAnswerProgress({ choicesMax, choices: asked, prompts }: ProgressOptions) {
  let begun = false;
  let done = false;
  const open = new Set<number>();
  const finished = new Set<number>();
  const finishedLatest = new Set<number>();
  const reports = createReports({ choices: asked, prompts });

  function followChoice(choice: Choice): string {
    const { finish_reason: reason } = choice;
    const index = choice.index ?? 0;
    open.add(index);
    if (open.size > choicesMax) throw new BackendError('unreadable', `there are more than ${choicesMax} choices`);
    if (reason && !finished.has(index)) finishedLatest.add(index);
    if (reason) finished.add(index);
    const text = writtenIn(choice);
    // A message is whole, and comes with or after the text.
    begun ||= Boolean(reason) || ((choice.delta ?? choice.text) != null && (text !== '' || hasContent(choice.delta)));
    return text;
  }

  function takeReports(chunk: Chunk): boolean {
    const { choices } = chunk;
    let isReported = false;
    for (const { index, usage } of choices) {
      if (usage != null && reports.addOfChoice(index ?? 0, usage)) isReported = true;
    }
    // Beside several choices, it is that of one, so far.
    const usage = asked === 1 || choices.length === 0 ? usageIn(chunk) : undefined;
    return (usage != null && reports.addAfter([...finished].at(-1), usage)) || isReported;
  }

  return {
    /** Takes a chunk. Returns what came with it. */
    follow(chunk: Chunk): WrittenPart {
      finishedLatest.clear();
      let text = '';
      for (const choice of chunk.choices) text += followChoice(choice);
      if (text !== '') reports.textCame();
      const isReported = takeReports(chunk);
      // Beside text, no tokens are no report.
      return { text, tokens: (isReported && reports.usage()?.completionTokens) || undefined };
    },
    /** Like `follow`, for a chunk that differs from an earlier one only in its text. The earlier one ended no choice. */
    followText(text: string): WrittenPart {
      finishedLatest.clear();
      begun = true;
      reports.textCame();
      return { text, tokens: undefined };
    },
    /** `[DONE]` has come. */
    finish(): void {
      done = true;
    },
    /** Whether the answer proper has begun: a token or an image came, or an end without tokens. A role alone is no token. */
    begun: (): boolean => begun,
    /**
     * Whether the backend has reported the end: by a `finish_reason` for each choice that it was asked for, or by `[DONE]` after one for
     * each choice that has begun, or for none. A stream that ends without it broke off (contract.md#ms1-complete-answers).
     */
    complete(choicesAsked: () => number): boolean {
      if (!begun) return false;
      const areAllFinished = finished.size === open.size;
      return done ? areAllFinished || finished.size === 0 : areAllFinished && finished.size >= choicesAsked();
    },
    /** Of the choices asked for, and others that have begun: those that had not finished before the latest chunk. */
    unfinished(choicesAsked: number): number[] {
      const all = new Set([...Array.from({ length: choicesAsked }, (_, index) => index), ...open]);
      const isOpen = (index: number) => !finished.has(index) || finishedLatest.has(index);
      return inOrder([...all].filter(isOpen));
    },
    /** The choices that `[DONE]` has ended, because none has a `finish_reason`. */
    endedByDone: (): number[] => (done && finished.size === 0 ? inOrder([...open]) : []),
    /** The last readable usage, or the sum of those of several choices: as tokens. The last one also as the backend reported it. */
    usage: reports.usage,
    reportedUsage: reports.latest,
  };
}

function inOrder(indexes: readonly number[]): number[] {
  return indexes.toSorted((one, other) => one - other);
}

/** The usages that were reported. With one choice, only the last one counts. */
function createReports({ choices: asked, prompts }: Pick<ProgressOptions, 'choices' | 'prompts'>) {
  /** By choice: reported in it, and reported after its end. */
  const within = new Map<number, ReportedUsage>();
  const after = new Map<number, ReportedUsage>();
  let only: ReportedUsage | undefined;
  let latest: unknown;
  let isBeforeText = false;

  /** False if it cannot be read. */
  function add(reported: unknown, keep: (usage: ReportedUsage) => void): boolean {
    const usage = readUsage(reported);
    if (usage === undefined) return false;
    keep(usage);
    latest = reported;
    isBeforeText = false;
    return true;
  }
  function keepOnly(usage: ReportedUsage): void {
    only = usage;
  }

  return {
    addOfChoice: (index: number, reported: unknown) =>
      add(reported, asked === 1 ? keepOnly : (usage) => within.set(index, usage)),
    /** `ended`: the choice that has ended last. Some servers report each choice alone, others all of them after the last one. */
    addAfter: (ended: number | undefined, reported: unknown) =>
      add(reported, asked === 1 || ended === undefined ? keepOnly : (usage) => after.set(ended, usage)),
    textCame(): void {
      isBeforeText = true;
    },
    usage(): ReportedUsage | undefined {
      const sum = (reports: typeof after) => sumOfChoices([...reports.values()], asked / prompts);
      const usage = asked === 1 ? only : (sum(after) ?? sum(within) ?? only);
      return usage === undefined || !isBeforeText ? usage : { ...usage, isPartial: true };
    },
    latest: () => latest,
  };
}

/**
 * Answers that consist of choices: chat completions and text completions. Known fields are checked; unknown fields pass through. Null means
 * absent. Source: the OpenAI API reference, chat completions and completions.
 */

/** A whole answer. Usage is checked separately: unreadable usage counts as missing. */
export const choicesAnswerSchema = z.looseObject({
  model: z.string().nullish(),
  choices: z.array(z.looseObject({ message: z.looseObject({}).nullish(), text: z.string().nullish() })).min(1),
});

export type ChoicesAnswer = z.infer<typeof choicesAnswerSchema>;

/** One event of a streamed answer. */
export const chunkSchema = z.looseObject({
  model: z.string().nullish(),
  choices: z.array(
    z.looseObject({
      index: z.int().nonnegative().nullish(),
      delta: z.looseObject({}).nullish(),
      text: z.string().nullish(),
      finish_reason: z.string().nullish(),
    }),
  ),
});

export type Chunk = z.infer<typeof chunkSchema>;

type WrittenChoice = { delta?: unknown; message?: unknown; text?: unknown };

/**
 * What the model wrote in a choice. Some servers send a message in a stream as in a whole answer, or the same text in both places: the
 * longer one counts.
 */
export function writtenIn({ delta, message, text }: WrittenChoice): string {
  const inMessage = writtenText(delta ?? message);
  return typeof text === 'string' && text.length > inMessage.length ? writtenText(text) : inMessage;
}

/**
 * Parses the data of one event of a streamed answer. Undefined for what is no chunk and no error, and is skipped
 * (contract.md#ms9-what-is-skipped). Fails with `BackendError`, with the backend's own error if it is one.
 */
export function parseChunk(data: string): Chunk | undefined {
  if (data.trim() === '') return undefined;
  const value = parseBackendJson(data, 'an event');
  const chunk = isPlainChunk(value) ? value : chunkSchema.safeParse(withChoices(value)).data;
  // A chunk with an error is no chunk, even if it has other fields: passed on, it would be followed by [DONE].
  if (chunk !== undefined && chunk.error == null) {
    for (const choice of chunk.choices) requireEnded(choice.finish_reason);
    return chunk;
  }
  if (isOther(value) && readSaid(value) === undefined) return undefined;
  throw notAnAnswer(value, 'an event is not a chunk');
}

/** Some servers report usage in an event without choices. */
function withChoices(value: unknown): unknown {
  return isObject(value) && value.choices == null && usageIn(value) != null ? { ...value, choices: [] } : value;
}

function isOther(value: unknown): boolean {
  return value === null || (isObject(value) && value.choices == null && value.error == null);
}

/**
 * Whether the schema would accept the value unchanged. This holds for nearly every chunk, at a tenth of the schema's cost. The schema
 * decides about all others.
 */
export function isPlainChunk(value: unknown): value is Chunk {
  if (!isObject(value) || !Array.isArray(value.choices)) return false;
  if (value.model != null && typeof value.model !== 'string') return false;
  return value.choices.every(isPlainChoice);
}

function isPlainChoice(choice: unknown): boolean {
  if (!isObject(choice)) return false;
  const { index, delta, text, finish_reason: finishReason } = choice;
  return (
    (index == null || (Number.isSafeInteger(index) && Number(index) >= 0)) &&
    (delta == null || isObject(delta)) &&
    (text == null || typeof text === 'string') &&
    (finishReason == null || typeof finishReason === 'string')
  );
}

type Answer = Json & { choices: readonly Json[] };

/**
 * Returns the tokens in a backend's `usage`, or undefined if there is none. Tokens that its cache had are in OpenAI's field, Moonshot's or
 * DeepSeek's. Called for every token of some servers, so without a schema.
 */
export function readUsage(usage: unknown): ReportedUsage | undefined {
  if (!isObject(usage)) return undefined;
  const [promptTokens, completed] = [tokensIn(usage.prompt_tokens), tokensIn(usage.completion_tokens)];
  if (promptTokens === undefined || completed === undefined) return undefined;
  const cached = Math.max(
    tokensIn(usage.cached_tokens) ?? 0,
    tokensIn(usage.prompt_cache_hit_tokens) ?? 0,
    detail(usage.prompt_tokens_details, 'cached_tokens'),
  );
  // xAI counts reasoning in the total only.
  const uncounted = Math.max(0, (tokensIn(usage.total_tokens) ?? 0) - promptTokens - completed);
  const reasoning = Math.min(uncounted, detail(usage.completion_tokens_details, 'reasoning_tokens'));
  return { promptTokens, completionTokens: completed + reasoning, cachedTokens: Math.min(cached, promptTokens) };
}

function detail(details: unknown, name: string): number {
  return isObject(details) ? (tokensIn(details[name]) ?? 0) : 0;
}

/**
 * The usage of several choices, of which each was reported alone; undefined without any. Each has the tokens of its prompt, which
 * `choicesOfPrompt` of them share.
 */
export function sumOfChoices(
  reports: readonly ReportedUsage[],
  choicesOfPrompt = reports.length,
): ReportedUsage | undefined {
  if (reports.length === 0) return undefined;
  const sum = (name: keyof AnswerTokens | 'cachedTokens') => reports.reduce((all, report) => all + report[name], 0);
  const ofPrompts = (name: 'promptTokens' | 'cachedTokens') =>
    Math.max(Math.round(sum(name) / choicesOfPrompt), ...reports.map((report) => report[name]));
  return {
    promptTokens: ofPrompts('promptTokens'),
    completionTokens: sum('completionTokens'),
    cachedTokens: ofPrompts('cachedTokens'),
  };
}

/** The usage in an answer or a chunk, as the backend wrote it. Groq has it in a field of its own, also in streams. */
export function usageIn({ usage, x_groq }: Json): unknown {
  return usage ?? (isObject(x_groq) ? (x_groq.usage ?? undefined) : undefined);
}

/** Without any usage: that of the client is another. The object itself if it has none, also no null. */
export function withoutUsage<T extends Answer>(answer: T): T {
  if (!hasUsage(answer) && !answer.choices.some(hasUsage)) return answer;
  const { x_groq, ...rest } = without(answer);
  const choices = answer.choices.map((choice) => (hasUsage(choice) ? without(choice) : choice));
  const group = x_groq === undefined ? {} : { x_groq: isObject(x_groq) ? without(x_groq) : x_groq };
  const left: Answer = { ...rest, ...group, choices };
  return left as T; // only usage was left out
}

function hasUsage({ usage, x_groq }: Json): boolean {
  return usage !== undefined || (isObject(x_groq) && x_groq.usage !== undefined);
}

function without<T extends Json>({ usage: _, ...rest }: T): Json {
  return rest;
}

/** Usage in OpenAI's shape: as the backend reported it if the tokens are the same, else with the backend's other fields. */
export function presentUsage(tokens: AnswerTokens, reported?: unknown): Json {
  const { promptTokens, completionTokens } = tokens;
  const counts = { prompt_tokens: promptTokens, completion_tokens: completionTokens };
  const total = { total_tokens: promptTokens + completionTokens };
  if (isObject(reported) && hasTokens(reported, tokens)) return { ...withMissing(reported, total), ...counts };
  return { ...(readUsage(reported) !== undefined && withoutDetails(reported)), ...counts, ...total };
}

/** Whether a usage is presented as the backend wrote it. */
export function isPresentedAs(reported: unknown, tokens: AnswerTokens): boolean {
  return isObject(reported) && hasTokens(reported, tokens) && reported.completion_tokens === tokens.completionTokens;
}

function hasTokens(reported: Json, { promptTokens, completionTokens }: AnswerTokens): boolean {
  const own = readUsage(reported);
  return own?.promptTokens === promptTokens && own.completionTokens === completionTokens;
}

/** The details could be more than the tokens that they are a part of. */
function withoutDetails(reported: unknown): object {
  const { completion_tokens_details, ...rest } = reported as { completion_tokens_details?: unknown }; // it was read as an object
  return rest;
}
