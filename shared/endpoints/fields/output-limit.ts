import { type ValidationIssue, validationError } from '../../errors.ts';
import { isObject } from '../../json/json-values.ts';
import { foldedName } from './field-names.ts';

/**
 * The requested output limits: tokens of each choice, and number of choices, each with the field that set it. Without `tokens` if the
 * request leaves the limit to the model.
 */
type OutputLimit = { tokens?: FieldValue; choices: FieldValue };
type FieldValue = { value: number; field: string };

/** OpenAI's two names, and those that model servers accept besides or instead of them. */
const limitNames = [
  'max_tokens',
  'max_completion_tokens',
  'n_predict', // llama.cpp
  'num_predict', // Ollama
  'max_new_tokens', // Text Generation Inference, SGLang
  'max_output_tokens', // the Responses API, Gemini
  'maxOutputTokens', // Gemini's own
  'maxTokens', // Bedrock
] as const;

/** Some servers run `best_of` choices to return `n` of them; the others are its names in llama.cpp, Transformers and Gemini. */
const choiceNames = ['n', 'best_of', 'n_cmpl', 'num_return_sequences', 'candidate_count', 'candidateCount'] as const;

/** Objects in which some servers, and gateways in front of them, look for the same fields; none looks deeper. */
const wrappers = [
  'extra_body',
  'options',
  'parameters',
  'sampling_params',
  'generation_config',
  'generationConfig',
] as const;

/** The most choices of one prompt that a client can ask for. */
export const choicesMax = 128;
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) > 0;

/**
 * Reads the limits from the top level of a request, under any of their names, and from the objects that servers read. Of several limits the
 * largest counts. Fails with `VALIDATION_ERROR`, which names each field that is not a positive integer, exceeds `outputTokensMax` or 128
 * choices, or differs from one of these names only in case. The fields in `clamped` are lowered to `outputTokensMax` instead.
 */
export function readOutputLimit(
  request: Readonly<Record<string, unknown>>,
  { outputTokensMax, clamped = [] }: { outputTokensMax: number; clamped?: readonly string[] },
): OutputLimit {
  const places = placesIn(request);
  const issues: ValidationIssue[] = misspelt(places);
  const tokens: FieldValue[] = [];
  const choices: FieldValue[] = [];
  for (const { path, fields } of places) {
    tokens.push(...readFields({ path, fields, names: limitNames, max: outputTokensMax, clamped }, issues));
    choices.push(...readFields({ path, fields, names: choiceNames, max: choicesMax, clamped: [] }, issues));
  }
  if (issues.length > 0) throw validationError(issues);
  const most = largest(tokens);
  return { ...(most && { tokens: most }), choices: largest(choices) ?? { value: 1, field: 'n' } };
}

type FieldsAt = { path: string; fields: Readonly<Record<string, unknown>> };

function placesIn(request: Readonly<Record<string, unknown>>): FieldsAt[] {
  const places: FieldsAt[] = [{ path: '', fields: request }];
  for (const name of wrappers) {
    const fields = request[name];
    if (isObject(fields)) places.push({ path: `${name}.`, fields });
  }
  return places;
}

type LimitFields = FieldsAt & { names: readonly string[]; max: number; clamped: readonly string[] };

/** A null field counts as omitted, as in model servers. */
function readFields({ path, fields, names, max, clamped }: LimitFields, issues: ValidationIssue[]): FieldValue[] {
  const asked: FieldValue[] = [];
  for (const name of names) {
    const given = fields[name];
    if (given === undefined || given === null || !Object.hasOwn(fields, name)) continue;
    const field = path + name;
    if (!isCount(given)) issues.push({ path: field, message: 'expected a positive whole number' });
    else if (given > max && !clamped.includes(field)) issues.push({ path: field, message: `expected at most ${max}` });
    if (isCount(given)) asked.push({ value: clamped.includes(field) ? Math.min(given, max) : given, field });
  }
  return asked;
}

function largest(asked: readonly FieldValue[]): FieldValue | undefined {
  return asked.reduce<FieldValue | undefined>(
    (most, one) => (most === undefined || one.value > most.value ? one : most),
    undefined,
  );
}

const guarded = new Set<string>(['model', ...limitNames, ...choiceNames, ...wrappers]);

/** Whether a field sets a limit, may hold one, or names the model. */
export function isLimitField(name: string): boolean {
  return guarded.has(name);
}

/**
 * Servers written in Go match field names case-insensitively and use the last of several: `Max_Tokens` would override the limit that the
 * worker inserts in front. So would `max_toKens` with the Kelvin sign (encoding/json uses Unicode folding).
 */
function misspelt(places: readonly FieldsAt[]): ValidationIssue[] {
  const issues: ValidationIssue[] = [];
  for (const { path, fields } of places) {
    for (const name of Object.keys(fields)) {
      const meant = foldedName(name);
      if (meant === name) continue;
      if (guarded.has(meant)) issues.push({ path: path + name, message: `must be spelled ${meant}` });
    }
  }
  return issues;
}
