import { openPatientStore } from '../../support/mongodb/open-patient-store.ts';
import { plainRecord } from './usage-races-contract.ts';

/** Records usage from one position to another, twenty at a time, and prints its progress. */
const [url = '', from = '0', to = '0'] = process.argv.slice(2);

await using store = await openPatientStore(url);
for (let place = Number(from); place < Number(to); place += 20) {
  await store.usage.recordUsage(Array.from({ length: 20 }, (_, index) => plainRecord(place + index)));
  process.stdout.write(`${place + 20}\n`);
}
