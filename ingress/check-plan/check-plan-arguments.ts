import { parseArgs } from 'node:util';

export const usageText = `Usage: npm run --silent check-plan -- plans.new.yaml [--against http://127.0.0.1:8081] [--probe]

Checks a plan file, and prints every issue with its line and column. Exits with 1 if there is one. Of a valid file it prints warnings.

  --against <url>   compares it with the plan file in force of an ingress: the address of its operations listener
  --probe           asks each backend for its health and its models, with the keys of this environment; exits with 1 if one is not well
  --help            prints this text
`;

export type CheckPlanArguments = { file: string; against: URL | undefined; probe: boolean };

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
