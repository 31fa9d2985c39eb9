import { join } from 'node:path';
import type { ExecutionContext } from 'ava';
import { changeSettings, mintKey, revokeKey, rotateKey } from '../../../ingress/callers/account-changes.ts';
import { createFurtherKey, revokeKeyById, rotateKeyById } from '../../../ingress/callers/further-key-changes.ts';
import type { Account } from '../../../shared/store/accounts/account.ts';
import type { Decide } from '../../../shared/store/accounts/decide.ts';
import type { Store } from '../../../shared/store/store.ts';
import { openRelease } from '../../support/earlier-releases.ts';
import { type Contract, newKey, provesOnStore, type StoreHome } from './store-contract.ts';

type PreviousStore = AsyncDisposable & Pick<Store, 'changeAccount' | 'findAccount' | 'findKeyOwner' | 'recordKeyUse'>;

const id = 'user:ann';

/** The guarantees for accounts that this and the previous release change at the same time. */
export function testMixedKeysContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('changes by the previous release leave further keys and their uses unchanged', keepsFurtherKeys);
}

async function keepsFurtherKeys(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  t.timeout(60_000);
  await using release = await openRelease('previous');
  const { openStore } = await import(join(release.root, 'shared/open-store.ts'));
  await using previous: PreviousStore = await openStore(home.url, { log: { warn() {} } });

  const [byDefault, further, successor, ended] = [newKey(), newKey(), newKey(), newKey()];
  const fields = { name: 'import', models: ['small-chat'], limits: { tokensPerMonth: 5 } };
  await store.changeAccount(id, createFurtherKey({ account: id, plan: 'free', key: further, fields }));
  await store.changeAccount(id, createFurtherKey({ account: id, plan: 'free', key: ended, fields: { name: 'old' } }));
  await store.changeAccount(id, revokeKeyById({ id: ended.id, at: new Date() }));
  await store.recordKeyUse([{ account: id, keyId: further.id, isFurther: true, at: new Date(60_000) }]);
  await store.changeAccount(id, rotateKeyById({ id: further.id, key: successor, graceMs: 3_600_000 }));
  const before = await store.findAccount(id);
  t.like(before, { furtherKeys: { length: 2 }, endedFurtherKeys: { length: 1 } });

  const at = new Date();
  const changes: Decide<unknown>[] = [
    mintKey({ account: id, plan: 'free', key: byDefault }),
    changeSettings({ settings: { plan: 'pro' }, at, by: 'user:operator' }),
    rotateKey({ named: { hashes: [byDefault.hash] }, key: newKey() }),
    changeSettings({ settings: { suspended: true }, at, by: 'user:operator' }),
    revokeKey({ named: { display: 'svc_unknow' }, at }),
  ];
  for (const change of changes) {
    // That release decides on the fields that it knows.
    await previous.changeAccount(id, (known) => {
      t.false(Object.hasOwn(known ?? {}, 'furtherKeys'));
      return change(known as Account);
    });
    const { furtherKeys, endedFurtherKeys } = (await store.findAccount(id)) ?? {};
    t.deepEqual(
      { furtherKeys, endedFurtherKeys },
      {
        furtherKeys: before?.furtherKeys,
        endedFurtherKeys: before?.endedFurtherKeys,
      },
    );
  }
  await previous.recordKeyUse([{ account: id, keyId: further.id, at: new Date() }]);

  t.like(await store.findAccount(id), { version: 8, plan: 'pro', suspended: true, endedKeys: { length: 1 } });
  t.like(await store.findKeyOwner([further.hash]), { keyId: further.id, plan: 'pro', suspended: true });
  t.is(await previous.findKeyOwner([further.hash]), undefined, 'that release rejects further keys');
  const third = newKey();
  await store.changeAccount(id, rotateKeyById({ id: successor.id, key: third, graceMs: 0 }));
  t.like(await previous.findAccount(id), { version: 9, plan: 'pro' });
  t.like(await store.findKeyOwner([third.hash]), { furtherKey: { models: ['small-chat'] } });
}
