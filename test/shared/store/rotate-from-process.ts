import { rotateKey } from '../../../ingress/callers/account-changes.ts';
import { openStore } from '../../../shared/open-store.ts';
import { newKey } from './store-contract.ts';

/** Rotates the account's key until it is killed, named as its owner would; prints the id of each key that was answered. */
const [url = '', account = ''] = process.argv.slice(2);

await using store = await openStore(url, { log: { warn() {} } });
for (;;) {
  const display = (await store.findAccount(account))?.key?.display ?? '';
  const rotated = await store.changeAccount(account, rotateKey({ named: { display }, key: newKey() }));
  if (rotated === undefined) throw new Error('nobody else rotates this key');
  process.stdout.write(`${rotated.key?.id}\n`);
}
