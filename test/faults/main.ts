import { prepare } from '../suite/prepare.ts';
import { declaredFaults, isMeant } from '../support/faults/declared-faults.ts';
import { describeFault, type FaultResult, summary } from '../support/faults/describe-faults.ts';
import { notRun } from '../support/faults/not-run.ts';
import { runFaults } from '../support/faults/run-faults.ts';
import { writeTable } from '../support/faults/when-down.ts';

const help = `npm run faults                  all faults, on real processes: about half an hour
npm run faults -- 9 13a B       only those with these numbers
npm run faults -- --write       all of them; if all promises held, writes the table of ingress/documentation/failures.md
npm run faults -- --list        their names

Reports for each fault what was done, what was promised and what was seen. The exit code is 1 if one failed or is missing.`;

const wishes = process.argv.slice(2);
const options = wishes.filter((wish) => wish.startsWith('--'));
const numbers = wishes.filter((wish) => !wish.startsWith('--'));
const declared = declaredFaults();
const isWanted = ({ id }: { id: string }) => numbers.length === 0 || numbers.some((number) => isMeant(id, number));
const hindered: FaultResult[] = notRun
  .filter(isWanted)
  .map(({ reason, ...fault }) => ({ ...fault, verdict: 'not run', seen: [reason], ms: 0 }));
const wanted = declared.filter(isWanted);
const unknown = [
  ...options.filter((option) => !['--help', '--write', '--list'].includes(option)),
  ...numbers.filter((number) => ![...declared, ...notRun].some(({ id }) => isMeant(id, number))),
];

if (unknown.length > 0) {
  console.error(`There is no ${unknown.join(', ')}.\n\n${help}`);
  process.exitCode = 2;
} else if (options.includes('--help')) {
  console.log(help);
} else if (options.includes('--list')) {
  for (const { id, done, file } of wanted) console.log(`${id.padEnd(4)} ${done} (${file})`);
} else {
  await prepare();
  const { results, problem } = await runFaults(wanted, { isAll: numbers.length === 0, say: console.log });
  for (const one of hindered) console.log(`\n${describeFault(one)}`);
  console.log(`\n${summary([...results, ...hindered])}`);
  if (problem !== undefined) console.error(problem);
  if (problem !== undefined || results.some(({ verdict }) => verdict === 'FAILED')) process.exitCode = 1;
  else if (options.includes('--write')) console.log(await writeTable(results));
}
