import { once } from 'node:events';
import { openPatientStore } from '../../support/mongodb/open-patient-store.ts';
import { resultOf } from './batch-records.ts';

/**
 * Waits for a line, then inserts results for the lines 1 to 600, ten at a time, from either end. Prints who inserted the stored result of
 * each line, in order of the lines.
 */
const [url = '', batch = '', name = '', order = ''] = process.argv.slice(2);

await using store = await openPatientStore(url);
await store.ping();
process.stdout.write('ready\n');
await once(process.stdin, 'data');

const stored = new Map<number, string>();
for (let step = 0; step < 60; step += 1) {
  const first = 1 + 10 * (order === 'desc' ? 59 - step : step);
  const results = Array.from({ length: 10 }, (_, index) => resultOf(batch, first + index, { customId: name }));
  for (const { line, customId } of await store.batches.insertResults(results)) stored.set(line, customId);
}
process.stdout.write(`${JSON.stringify(Array.from({ length: 600 }, (_, index) => stored.get(index + 1)))}\n`);
process.stdin.destroy();
