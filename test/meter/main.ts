import { readFile, writeFile } from 'node:fs/promises';
import { type Budget, overBudget } from './budget.ts';
import { measureRedis } from './measure.ts';

const help = `npm run meter              counts what 100 requests and a stream of 300 chunks cost in Redis, and compares it with the budget
npm run meter -- --write   also writes it as the new budget: say in the commit why it grew
`;
const file = new URL('budget.json', import.meta.url);

const wishes = process.argv.slice(2);
if (wishes.some((wish) => wish !== '--write')) {
  process.stderr.write(help);
  process.exitCode = 2;
} else {
  const measured = await measureRedis();
  process.stdout.write(`${JSON.stringify(measured, undefined, 2)}\n`);
  if (wishes.includes('--write')) await writeFile(file, `${JSON.stringify(measured, undefined, 2)}\n`);
  else {
    const over = overBudget(JSON.parse(await readFile(file, 'utf8')) as Budget, measured); // our own file
    for (const line of over) process.stderr.write(`${line}\n`);
    process.exitCode = over.length === 0 ? 0 : 1;
  }
}
