import { rotateKey } from '../../../ingress/authentication/change-keys.ts';
import { defaultKeyOf } from '../../../shared/store/records/key.ts';
import { openPatientStore } from '../../support/mongodb/open-patient-store.ts';
import { newKey } from './store-contract.ts';

/** Rotates the account's key until it is killed, and names the key as its owner would. Prints the id of each new key. */
const [url = '', account = ''] = process.argv.slice(2);

await using store = await openPatientStore(url);
for (;;) {
  const display = defaultKeyOf(await store.accounts.findAccount(account))?.display ?? '';
  const rotated = await store.accounts.changeAccount(account, rotateKey({ named: { display }, key: newKey() }));
  if (rotated === undefined) throw new Error('no other process rotates this key');
  process.stdout.write(`${defaultKeyOf(rotated)?.id}\n`);
}
