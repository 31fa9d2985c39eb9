import { z } from 'zod';
import { storedDate as date } from '../json/stored-values.ts';

const count = z.int().nonnegative();

const tokensSchema = z.object({ model: z.string(), promptTokens: count, cachedTokens: count, completionTokens: count });

const failureSchema = z.object({
  line: z.int().positive(),
  customId: z.string(),
  code: z.string(),
  message: z.string(),
});

export const batchProgressSchema = z.object({
  lines: count,
  samples: z.array(z.object({ at: date, lines: count })),
  tokens: z.array(tokensSchema),
  errorCounts: z.record(z.string(), count),
  failures: z.array(failureSchema),
});

/**
 * What the results of a running batch say so far. `lines` is how many results it has counted. `samples` are earlier values of it, of about
 * the last minute, oldest first. `tokens` are by model, and `errorCounts` as at the end of the batch. `failures` are the first failed lines
 * of its file.
 */
export type BatchProgress = z.infer<typeof batchProgressSchema>;

/** What progress needs of a result. */
export type LineOutcome = {
  line: number;
  customId: string;
  model?: string | undefined;
  failed: boolean;
  status: number | null;
  error: { code: string; message: string } | null;
  promptTokens: number;
  cachedTokens: number;
  completionTokens: number;
};

export const noProgress: BatchProgress = { lines: 0, samples: [], tokens: [], errorCounts: {}, failures: [] };

const minuteMs = 60_000;
const sampleEveryMs = 5_000;
const failuresMax = 10;
const messageLengthMax = 500;
/** A file may name as many models as it has lines, but only those of the plan file have tokens. */
const modelsMax = 100;
export const otherModels = 'other';
/** A model server may answer any status, and each is counted. */
const errorCodesMax = 50;
const otherErrors = 'other';

/** Adds results that are not counted yet. */
export function withOutcomes(progress: BatchProgress, outcomes: readonly LineOutcome[]): BatchProgress {
  const errorCounts = { ...progress.errorCounts };
  const failed = outcomes.filter((outcome) => outcome.failed);
  for (const outcome of failed) countError(errorCounts, outcome);
  const failures = [...progress.failures, ...failed.map(failureOf)].toSorted((one, other) => one.line - other.line);
  return {
    lines: progress.lines + outcomes.length,
    samples: progress.samples,
    tokens: outcomes.reduce(withTokens, progress.tokens),
    errorCounts,
    failures: failures.slice(0, failuresMax),
  };
}

/** Notes how many lines are counted at this time. Keeps one sample that is at least a minute old. */
export function withSample({ samples, ...progress }: BatchProgress, at: Date): BatchProgress {
  const now = at.getTime();
  const last = samples.at(-1);
  if (last !== undefined && now - last.at.getTime() < sampleEveryMs) return { ...progress, samples };
  const first = samples.findLastIndex((sample) => now - sample.at.getTime() >= minuteMs);
  return { ...progress, samples: [...samples.slice(Math.max(0, first)), { at, lines: progress.lines }] };
}

/** Counts a failed line under the code of its error, or else under the status of its response. */
export function countError(counts: Record<string, number>, failed: Pick<LineOutcome, 'error' | 'status'>): void {
  const code = lineCodeOf(failed);
  const isKnown = Object.hasOwn(counts, code) || Object.keys(counts).length < errorCodesMax;
  const name = isKnown ? code : otherErrors;
  counts[name] = (counts[name] ?? 0) + 1;
}

/** Lines a second in the last minute before `now`, or since the batch began to run. Undefined if it has just begun. */
export function linesPerSecond({ lines, samples }: BatchProgress, { since, now }: { since: Date; now: number }) {
  const before = samples.findLast(({ at }) => now - at.getTime() >= minuteMs);
  const start = before ?? { at: since, lines: 0 };
  const seconds = (now - start.at.getTime()) / 1_000;
  return seconds < 1 ? undefined : (lines - start.lines) / seconds;
}

function withTokens(tokens: BatchProgress['tokens'], outcome: LineOutcome): BatchProgress['tokens'] {
  const { promptTokens, cachedTokens, completionTokens } = outcome;
  if (outcome.model === undefined || promptTokens + completionTokens === 0) return tokens;
  const isKnown = tokens.some(({ model }) => model === outcome.model);
  const model = isKnown || tokens.length < modelsMax ? outcome.model : otherModels;
  const before = tokens.find((each) => each.model === model);
  const sum = {
    model,
    promptTokens: (before?.promptTokens ?? 0) + promptTokens,
    cachedTokens: (before?.cachedTokens ?? 0) + cachedTokens,
    completionTokens: (before?.completionTokens ?? 0) + completionTokens,
  };
  return before === undefined ? [...tokens, sum] : tokens.map((each) => (each === before ? sum : each));
}

function failureOf({ line, customId, ...failed }: LineOutcome): BatchProgress['failures'][number] {
  const message = failed.error?.message ?? 'The model server refused the line.';
  return { line, customId, code: lineCodeOf(failed), message: message.slice(0, messageLengthMax).toWellFormed() };
}

function lineCodeOf({ error, status }: Pick<LineOutcome, 'error' | 'status'>): string {
  return error?.code ?? `status_${status}`;
}
