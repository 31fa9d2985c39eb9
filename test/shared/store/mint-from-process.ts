import { once } from 'node:events';
import { openPatientStore } from '../../support/mongodb/open-patient-store.ts';
import { mint } from './store-contract.ts';

/** Waits for a line, then opens the store and mints a key for each account. Prints the ids of the accounts it minted for. */
const [url = '', ...accounts] = process.argv.slice(2);
process.stdout.write('ready\n');
await once(process.stdin, 'data');

await using store = await openPatientStore(url);
const outcomes = await Promise.all(accounts.map((account) => mint(store, account)));
process.stdout.write(`${JSON.stringify(outcomes.filter(({ minted }) => minted).map(({ account }) => account.id))}\n`);
process.stdin.destroy();
