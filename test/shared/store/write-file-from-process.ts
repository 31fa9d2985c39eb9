import { randomBytes } from 'node:crypto';
import { openPatientStore } from '../../support/mongodb/open-patient-store.ts';

/** Writes an endless file, and prints how many bytes were taken. */
const [url = '', id = ''] = process.argv.slice(2);

async function* endless() {
  for (let bytes = 0; ; bytes += 100_000) {
    process.stdout.write(`${bytes}\n`);
    yield randomBytes(100_000);
  }
}

await using store = await openPatientStore(url);
await store.files.write(id, endless());
