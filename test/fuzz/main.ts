import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { describeFailure, describeReport, keepInput } from './search/describe-search.ts';
import { checkInput } from './search/fuzz-target.ts';
import { keptSeeds } from './search/kept-seeds.ts';
import { searchInThread } from './search/search-in-thread.ts';
import { targets } from './targets.ts';

const help = `npm run fuzz                    every target of the list, 60 s each
npm run fuzz -- forms tokens    only these targets
npm run fuzz -- --seconds 600   this many seconds for each target
npm run fuzz -- --seed 123      the same inputs as every search with this number, while code and seeds are the same
npm run fuzz -- forms --seed 123 --path 4:0:1   repeats one failure, and shrinks it
npm run fuzz -- forms --input <file>            the bytes of this file as the only input
npm run fuzz -- --list          the targets, and the promise about all inputs of each

Mutates the inputs kept in test/fuzz/seeds/ and calls the code that reads such inputs, in this process. Prints how many inputs
each target tried, and their outcomes. Shrinks an input that breaks a promise, prints it, writes it to a file, and exits with 1.`;

const root = fileURLToPath(new URL('../..', import.meta.url));
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: 'string', default: '60' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
    path: { type: 'string' },
    input: { type: 'string' },
    list: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
const [seconds, seed] = [Number(values.seconds), Number(values.seed)];
const wanted = positionals.length === 0 ? Object.keys(targets) : positionals;
const unknown = wanted.filter((name) => !Object.hasOwn(targets, name));
const isAboutOne = values.path !== undefined || values.input !== undefined;

if (unknown.length > 0 || !(seconds > 0) || !Number.isInteger(seed) || (isAboutOne && wanted.length !== 1)) {
  if (unknown.length > 0) console.error(`There is no target ${unknown.join(', ')}.\n`);
  console.error(help);
  process.exitCode = 2;
} else if (values.help) console.log(help);
else if (values.list) for (const [name, { promise }] of entries()) console.log(`${name.padEnd(16)} ${promise}`);
else if (values.input !== undefined) for (const [name] of entries()) await tryInput(name, values.input);
else for (const [name] of entries()) await search(name);

function entries() {
  return Object.entries(targets).filter(([name]) => wanted.includes(name));
}

async function search(name: string): Promise<void> {
  console.log(`${name}: ${keptSeeds(name).length} seeds, ${seconds} s, --seed ${seed} …`);
  const targetsUrl = new URL('targets.ts', import.meta.url).href;
  const report = await searchInThread({ targetsUrl, name, seconds, seed, path: values.path });
  console.log(describeReport(name, report));
  if (report.failure === undefined) return;
  const file = await keepInput(root, name, report.failure.input);
  console.log(describeFailure(name, report.failure, { seed, file }));
  process.exitCode = 1;
}

async function tryInput(name: string, file: string): Promise<void> {
  const target = targets[name];
  if (target !== undefined) console.log(`${name}: ${await checkInput(target, await readFile(file))}`);
}
