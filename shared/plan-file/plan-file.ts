import { createHash } from 'node:crypto';
import { makeInThread } from '../concurrency/in-thread.ts';
import { pathIssuesOf, pathText, type ValidationIssue } from '../errors.ts';
import { crossCheck } from './cross-check.ts';
import { planFileSchema, type RawPlanFile } from './plan-file-schema.ts';
import { type Place, readYaml } from './read-yaml.ts';

/** The plan file in code: its names in camel case, its units as in the file (milliseconds, tokens, requests). Frozen. */
export type PlanFile = Camel<RawPlanFile>;
export type Model = PlanFile['models'][string];
export type Backend = PlanFile['backends'][string];
export type Timeouts = PlanFile['timeouts'];
export type Prices = Pick<PlanFile, 'prices' | 'currency'>;

/** A fault of a plan file by its path in it, and its place. An undefined alias has no place. */
type PlanFileIssue = ValidationIssue & Partial<Place>;

/** `generation` is that of the text: the first 12 hexadecimal digits of its SHA-256. */
export type ParsedPlanFile = { planFile: PlanFile; generation: string };

export type ParseResult = ParsedPlanFile | { issues: PlanFileIssue[] };

/** What a text says: a plan file, or all its issues, each with its place in the file. */
export type PlanFileResult = ParsedPlanFile | { issues: readonly ValidationIssue[] };

/**
 * Where the plan file is, what it said at the start, and what another text says in the environment of this process. `parse` uses a thread.
 * `warningsOf`: what is allowed in a plan file, but probably a mistake.
 */
export type PlanFileSource = {
  file: string;
  initial: ParsedPlanFile;
  parse: (text: string, signal: AbortSignal) => Promise<PlanFileResult>;
  warningsOf: (planFile: PlanFile) => readonly string[];
};

/** To parse a longer text could block the process for many seconds. */
export const planFileLengthMax = 262_144;

/** A file of another kind has nothing but issues. A name or an alias in them may be as long as the file. */
const issuesMax = 100;
const [pathLengthMax, messageLengthMax] = [200, 1_000];

/**
 * Parses the plan file. Returns it, or all its issues by their paths (`models.small-chat.backends[1]`), at most a hundred
 * (contract.md#k4-schema-and-check).
 */
export function parsePlanFile(text: string): ParseResult {
  if (text.length > planFileLengthMax)
    return { issues: [{ path: '', message: `is longer than ${planFileLengthMax} characters` }] };
  const yaml = readYaml(text);
  if ('faults' in yaml) return { issues: shortened(yaml.faults) };
  const parsed = planFileSchema.safeParse(yaml.value);
  const issues = [...(parsed.success ? [] : pathIssuesOf(parsed.error)), ...crossCheck(yaml.value)];
  if (parsed.success && issues.length === 0) {
    return { planFile: camelCase(parsed.data), generation: generationOf(text) };
  }
  // To find a place takes as long as the sections around it.
  const placed = issues
    .slice(0, issuesMax)
    .map(({ path, message }) => ({ path: pathText(path), message, ...yaml.placeOf(path) }));
  return { issues: shortened(placed.toSorted((a, b) => a.line - b.line || a.column - b.column)) };
}

/**
 * Does what `parsePlanFile` does, in a thread: the longest text takes half a second. Throws if the thread fails or the signal is aborted.
 */
export async function parseInThread(text: string, signal: AbortSignal): Promise<ParseResult> {
  const url = new URL('./parse-thread.ts', import.meta.url);
  const parsed = await makeInThread<ParseResult>({ url, request: text, signal });
  // What comes from a thread is neither frozen nor without a prototype. The names are in camel case already.
  return 'issues' in parsed ? parsed : { ...parsed, planFile: camelCase(parsed.planFile) };
}

/** The same issue, its place as editors and terminals read it: `plans.yaml:12:5: models.small-chat.backends[1]`. */
export function placedIn(file: string, { path, message, line, column }: PlanFileIssue): ValidationIssue {
  const place = line === undefined ? file : `${file}:${line}:${column}`;
  return { path: path === '' ? place : `${place}: ${path}`, message };
}

export function generationOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12);
}

/** `code`: of the failure, as Node names it (`ENOENT`). */
export function unreadable(file: string, code: string | undefined): ValidationIssue {
  return { path: 'PLAN_FILE', message: `cannot read ${file} (${code})` };
}

/** Lists every pool that has a model, each once. */
export function poolsOf({ models }: Pick<PlanFile, 'models'>): string[] {
  return [...new Set(Object.values(models).map(({ pool }) => pool))];
}

type QueueTimeouts = Pick<PlanFile, 'timeouts'> & {
  models: Readonly<Record<string, Pick<PlanFile['models'][string], 'queueMs'>>>;
};

/** How long a request for this model may wait until its job starts, in milliseconds (contract.md#d8-deadlines). */
export function queueMsOf({ models, timeouts }: QueueTimeouts, model: string): number {
  return models[model]?.queueMs ?? timeouts.queueMs;
}

/** The longest that a request of any model may wait. */
export function queueMsMax({ models, timeouts }: QueueTimeouts): number {
  return Math.max(timeouts.queueMs, ...Object.values(models).map(({ queueMs = 0 }) => queueMs));
}

/** A plan file of the longest length has thousands of tiers. */
const warningsMax = 100;

/**
 * What a plan file may have, but is probably a mistake: tiers without a plan or a model, models without a backend that takes requests, and
 * variables of API keys that are not set.
 * `variableOf`: undefined for a process that calls no backends.
 */
export function planWarnings(
  { plans, models, backends }: Pick<PlanFile, 'plans' | 'models' | 'backends'>,
  variableOf?: (name: string) => string | undefined,
): string[] {
  const missing = variableOf === undefined ? [] : missingVariables({ backends }, variableOf);
  const all = [...unusedTiers({ plans, models }), ...drainedModels({ models, backends }), ...missing];
  return all.slice(0, warningsMax).map(({ path, message }) => `${path}: ${message}`);
}

function unusedTiers({ plans, models }: Pick<PlanFile, 'plans' | 'models'>): ValidationIssue[] {
  const planTiers = new Set(Object.values(plans).flatMap(({ modelTiers }) => modelTiers));
  const modelTiers = new Set(Object.values(models).map(({ tier }) => tier));
  const ofModels = Object.entries(models).filter(([, { tier }]) => !planTiers.has(tier));
  return [
    ...ofModels.map(([name, { tier }]) => ({
      path: `models.${name}.tier`,
      message: `no plan has the tier "${tier}", so no one can use this model`,
    })),
    ...Object.entries(plans).flatMap(([name, plan]) => {
      const unused = [...new Set(plan.modelTiers)].filter((tier) => !modelTiers.has(tier));
      return unused.map((tier) => ({ path: `plans.${name}.model_tiers`, message: `no model has the tier "${tier}"` }));
    }),
  ];
}

function drainedModels({ models, backends }: Pick<PlanFile, 'models' | 'backends'>): ValidationIssue[] {
  const drained = Object.entries(models).filter(([, model]) =>
    model.backends.every((name) => backends[name]?.weight === 0),
  );
  return drained.map(([name]) => ({
    path: `models.${name}.backends`,
    message: 'all have weight 0, so no request of this model is answered',
  }));
}

/** Lists the variables of a worker's environment that the plan file names and that are not set. */
export function missingVariables(
  { backends }: Pick<PlanFile, 'backends'>,
  variableOf: (name: string) => string | undefined,
): ValidationIssue[] {
  return Object.entries(backends).flatMap(([name, { apiKeyEnv }]) => {
    if (apiKeyEnv === undefined || variableOf(apiKeyEnv)) return [];
    const message = `the variable ${apiKeyEnv} is not set; a worker without it does not call this backend`;
    return [{ path: `backends.${name}.api_key_env`, message }];
  });
}

function shortened(issues: readonly PlanFileIssue[]): PlanFileIssue[] {
  // Cut in the middle: if the issue is at a line of the file, the line is at the end of the message.
  const cut = (text: string, max: number) =>
    text.length > max ? `${text.slice(0, max / 2)}…${text.slice(-max / 2)}` : text;
  return issues.slice(0, issuesMax).map(({ path, message, ...place }) => ({
    path: cut(path, pathLengthMax),
    message: cut(message, messageLengthMax),
    ...place,
  }));
}

type CamelName<Name> = Name extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<CamelName<Tail>>}` : Name;
type Camel<T> = T extends readonly (infer Item)[]
  ? readonly Camel<Item>[]
  : T extends object
    ? { readonly [Key in keyof T as CamelName<Key>]: Camel<T[Key]> }
    : T;

/** Their keys are names that the operator has chosen. */
export const namedSections = new Set(['plans', 'models', 'aliases', 'backends', 'prices', 'headers', 'query']);

/** Returns a frozen copy whose objects have no prototype, so that looking up a model named `constructor` finds nothing. */
function camelCase<T>(value: T, keysAreNames = false): Camel<T> {
  if (Array.isArray(value)) return Object.freeze(value.map((item) => camelCase(item))) as Camel<T>;
  if (typeof value !== 'object' || value === null) return value as Camel<T>;
  const copy = Object.create(null);
  for (const [key, item] of Object.entries(value)) {
    const camelKey = keysAreNames ? key : key.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase());
    copy[camelKey] = camelCase(item, namedSections.has(key) && !keysAreNames);
  }
  return Object.freeze(copy);
}
