import { parseArgs } from 'node:util';
import { clusterFiles } from './cluster-files.ts';
import { runNightly } from './nightly.ts';
import { runAva, runFiles } from './run-files.ts';
import { sizedFiles, testFiles } from './test-files.ts';

const help = `npm test                       the fast tests
npm run test:slow              what .ci/run runs after them
npm run nightly [-- <part>]    all the rest, in parts; continues after the last part that passed (--again: from the start; --list)
npm run test:one -- <file>     one or more files, with options of ava
npm run test:sized -- [times]  random and repeated cases, at five times the full size, or this many times`;

const [command, ...args] = process.argv.slice(2);
if (command === 'fast') await end(runFiles(testFiles('fast'), { size: 'small' }));
else if (command === 'slow') await end(runFiles(testFiles('slow'), { size: 'small', onCluster: clusterFiles('slow') }));
else if (command === 'nightly') await end(nightly());
else if (command === 'sized' && Number(args[0] ?? 5) > 0)
  await end(runFiles(sizedFiles('any'), { size: args[0] ?? '5' }));
else if (command === 'one' && args.length > 0) process.exitCode = await runAva(args);
else {
  console.error(help);
  process.exitCode = 2;
}

async function end(run: Promise<{ code: number }>): Promise<void> {
  process.exitCode = (await run).code;
}

function nightly(): Promise<{ code: number }> {
  const options = { again: { type: 'boolean', default: false }, list: { type: 'boolean', default: false } } as const;
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options });
  return runNightly({ ...values, parts: positionals });
}
