import { estimateMemory } from './estimate-memory.ts';
import { itemBytes } from './item-bytes.ts';
import { parseMemoryArguments, usageText } from './memory-arguments.ts';
import { reportOf } from './memory-report.ts';

/** The command `npm run memory`. */
export function runMemory(): void {
  const demand = parseMemoryArguments(process.argv.slice(2));
  if (demand === undefined) {
    process.stderr.write(usageText);
    process.exitCode = 2;
  } else {
    process.stdout.write(demand === 'help' ? usageText : `${reportOf(estimateMemory(demand, itemBytes)).join('\n')}\n`);
  }
}
