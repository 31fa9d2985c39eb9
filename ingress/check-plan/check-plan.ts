import { readFile } from 'node:fs/promises';
import {
  type ParsedPlanFile,
  parsePlanFile,
  placedIn,
  planWarnings,
  unreadable,
} from '../../shared/plan-file/plan-file.ts';
import { planFilePath, presentPlanFile, shownPlanFile } from '../plan-file/present-plan-file.ts';
import type { CheckPlanArguments } from './check-plan-arguments.ts';
import { planChanges, planEffects } from './plan-changes.ts';
import { probeBackends } from './probe-backends.ts';

const answerMs = 10_000;

/** Lines to print, and whether the file can be used. `isValid` is false also if the comparison failed, or a backend is not well. */
type Report = { lines: string[]; isValid: boolean };

/**
 * Checks a plan file, and warns of what is probably a mistake. Compares it with the one of a running ingress if there is an address, and
 * probes its backends if that is asked for, with the keys that `variableOf` returns.
 */
export async function checkPlan(
  { file, against, probe }: CheckPlanArguments,
  variableOf: (name: string) => string | undefined,
): Promise<Report> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => error);
  if (typeof text !== 'string') return { lines: [unreadable(file, text.code).message], isValid: false };
  const parsed = parsePlanFile(text);
  if ('issues' in parsed) {
    const lines = parsed.issues.map((issue) => placedIn(file, issue)).map(({ path, message }) => `${path}: ${message}`);
    return { lines: [...lines, counted(lines.length, 'issue')], isValid: false };
  }
  const valid = `${file} is valid; its generation is ${parsed.generation}`;
  // A probe reports the variables itself.
  const warnings = planWarnings(parsed.planFile, probe ? undefined : variableOf).map(
    (warning) => `warning: ${warning}`,
  );
  const compared = against === undefined ? nothing : await compareOrReport(parsed, against);
  const probed = probe ? await probeBackends(parsed.planFile, { variableOf }) : { lines: [], isWell: true };
  return {
    lines: [valid, ...warnings, ...compared.lines, ...probed.lines],
    isValid: compared.isValid && probed.isWell,
  };
}

const nothing: Report = { lines: [], isValid: true };

function compareOrReport(parsed: ParsedPlanFile, against: URL): Promise<Report> {
  return compare(parsed, against).catch((error: unknown) => ({
    lines: [`${against.href} does not answer: ${reasonOf(error)}`],
    isValid: false,
  }));
}

async function compare({ planFile, generation }: ParsedPlanFile, against: URL): Promise<Report> {
  const response = await fetch(new URL(planFilePath, against), { signal: AbortSignal.timeout(answerMs) });
  if (!response.ok) throw new Error(`status ${response.status}`);
  const inForce = shownPlanFile.parse(await response.json());
  if (inForce.generation === generation) return { lines: ['It is in force there.'], isValid: true };
  const next = presentPlanFile(planFile);
  const changes = planChanges(inForce.planFile, next);
  const head = `In force there is ${inForce.generation}. ${counted(changes.length, 'change')}:`;
  return { lines: [head, ...changes, ...planEffects(inForce.planFile, next)], isValid: true };
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message : error.message;
}
