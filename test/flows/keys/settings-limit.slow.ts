import test from 'ava';
import { type Stack, startStack } from '../../stack/stack.ts';
import { createFurtherKeyClient } from '../../support/further-key-client.ts';
import { type Answer, createKeyClient, type KeyClient } from '../../support/key-client.ts';

const writesPerMinute = 60;

let stack: Stack;
let clients: KeyClient[];

test.before(async () => {
  stack = await startStack({ ingresses: 2, env: { SETTINGS_WRITES_PER_MINUTE: String(writesPerMinute) } });
  clients = stack.ingresses.map(({ url }) => createKeyClient(stack, { url: () => url }));
});

test.after.always(() => stack?.[Symbol.asyncDispose]());

/** The account's writes, in turn at both ingresses. */
const writes: ((keys: KeyClient, account: string) => Promise<Answer>)[] = [
  (keys, account) => keys.mint(account),
  (keys, account) => keys.rotate(account, 'no key'),
  (keys, account) => createFurtherKeyClient(keys, account).call('POST', '/v1/keys', { name: 'a program' }),
  (keys, account) => createFurtherKeyClient(keys, account).revoke('key_01KBN4V4W0R2E9Z6Y5QH3T8MXA'),
  (keys, account) => keys.signedIn(account, 'PATCH', '/billing/overage', { enabled: true }),
];

test('an account may change its keys and settings sixty times a minute, at all ingresses together', async (t) => {
  const statuses: number[] = [];
  for (let count = 0; count < writesPerMinute; count++) {
    const keys = clients[count % 2];
    const write = writes[count % writes.length];
    if (keys === undefined || write === undefined) return t.fail();
    statuses.push((await write(keys, 'eager')).status);
  }
  t.false(statuses.includes(429), String(statuses));

  for (const keys of clients) {
    for (const write of writes) {
      const { status, headers, body } = await write(keys, 'eager');
      const { error } = body as { error: { retry_after_ms: number } }; // a response of the service itself
      t.is(status, 429);
      t.like(error, { code: 'rate_limit_exceeded', type: 'settings_limit', param: null });
      t.true(error.retry_after_ms > 0 && error.retry_after_ms <= 60_001);
      t.is(headers.get('retry-after-ms'), String(error.retry_after_ms));
      t.is(headers.get('x-should-retry'), error.retry_after_ms > 60_000 ? 'false' : null);
    }
    t.is((await keys.signedIn('eager', 'GET', '/v1/keys')).status, 200, 'reading is not counted');
    t.is((await keys.mint('another')).status, 200);
    t.is((await keys.change('user:eager', { overageEnabled: false })).status, 200, 'an operator is not counted');
  }
});
