import { readVariable } from '../../shared/process/config.ts';
import { checkPlan } from './check-plan.ts';
import { parseCheckPlanArguments, usageText } from './check-plan-arguments.ts';

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
