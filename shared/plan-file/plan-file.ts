import { createHash } from 'node:crypto';
import { pathIssuesOf, pathText, type ValidationIssue } from '../validation-issues.ts';
import { type Camel, camelCase } from './camel-case.ts';
import { crossCheck } from './cross-check.ts';
import { planFileSchema, type RawPlanFile } from './plan-file-schema.ts';
import { type Place, readYaml } from './read-yaml.ts';

/** The plan file in code: its names in camel case, its units as in the file (milliseconds, tokens, requests). Frozen. */
export type PlanFile = Camel<RawPlanFile>;
export type Plan = PlanFile['plans'][string];
export type Model = PlanFile['models'][string];
export type Backend = PlanFile['backends'][string];
export type Timeouts = PlanFile['timeouts'];
export type Prices = Pick<PlanFile, 'prices' | 'currency'>;

/** A fault of a plan file by its path in it, and its place. An undefined alias has no place. */
export type PlanFileIssue = ValidationIssue & Partial<Place>;

/** `generation` is that of the text: the first 12 hexadecimal digits of its SHA-256. */
export type ParsedPlanFile = { planFile: PlanFile; generation: string };

/** To parse a longer text could block the process for many seconds. */
export const planFileLengthMax = 262_144;

/** A file of another kind has nothing but issues. A name or an alias in them may be as long as the file. */
const issuesMax = 100;
const [pathLengthMax, messageLengthMax] = [200, 1_000];

/**
 * Parses the plan file. Returns it, or all its issues by their paths (`models.small-chat.backends[1]`), at most a hundred
 * (contract.md#k4-schema-and-check).
 */
export function parsePlanFile(text: string): ParsedPlanFile | { issues: PlanFileIssue[] } {
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

/** The same issue, its place as editors and terminals read it: `plans.yaml:12:5: models.small-chat.backends[1]`. */
export function placedIn(file: string, { path, message, line, column }: PlanFileIssue): ValidationIssue {
  const place = line === undefined ? file : `${file}:${line}:${column}`;
  return { path: path === '' ? place : `${place}: ${path}`, message };
}

export function generationOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12);
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
