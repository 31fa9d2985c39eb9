import type { ValidationIssue } from '../validation-issues.ts';
import type { ParsedPlanFile, PlanFile } from './plan-file.ts';

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

/** `code`: of the failure, as Node names it (`ENOENT`). */
export function unreadable(file: string, code: string | undefined): ValidationIssue {
  return { path: 'PLAN_FILE', message: `cannot read ${file} (${code})` };
}
