import { readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import {
  type ParsedPlanFile,
  parsePlanFile,
  placedIn,
  planWarnings,
  unreadable,
} from '../../shared/plan-file/plan-file.ts';
import { readVariable } from '../../shared/process/config.ts';
import { planFilePath, presentPlanFile, shownPlanFile } from '../api/present-plan-file.ts';
import { planChanges, planEffects } from './plan-changes.ts';
import { probeBackends } from './probe-backends.ts';

/** The command `npm run check-plan`. */
export async function runCheckPlan(): Promise<void> {
  const given = parseCheckPlanArguments(process.argv.slice(2));
  if (given === undefined) {
    process.stderr.write(usageText);
    process.exitCode = 2;
  } else if (given === 'help') {
    process.stdout.write(usageText);
  } else {
    const { lines, isValid } = await checkPlan(given, readVariable());
    process.stdout.write(`${lines.join('\n')}\n`);
    process.exitCode = isValid ? 0 : 1;
  }
}

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

const usageText = `Usage: npm run --silent check-plan -- plans.new.yaml [--against http://127.0.0.1:8081] [--probe]

Checks a plan file, and prints every issue with its line and column. Exits with 1 if there is one. Of a valid file it prints warnings.

  --against <url>   compares it with the plan file in force of an ingress: the address of its operations listener
  --probe           asks each backend for its health and its models, with the keys of this environment; exits with 1 if one is not well
  --help            prints this text
`;

type CheckPlanArguments = { file: string; against: URL | undefined; probe: boolean };

/** Returns the arguments, `help`, or undefined if one is unknown, or if there is not one file. */
export function parseCheckPlanArguments(args: readonly string[]): CheckPlanArguments | 'help' | undefined {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      strict: true,
      options: { against: { type: 'string' }, probe: { type: 'boolean' }, help: { type: 'boolean' } },
    });
    if (values.help === true) return 'help';
    const [file, ...others] = positionals;
    if (file === undefined || others.length > 0) return undefined;
    const against = values.against === undefined ? undefined : new URL(values.against);
    return { file, against, probe: values.probe === true };
  } catch {
    return undefined;
  }
}
