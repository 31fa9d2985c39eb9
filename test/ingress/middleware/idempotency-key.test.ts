import test from 'ava';
import { idempotencyKeyOf } from '../../../ingress/middleware/idempotency.ts';

const keyIn = (value: string | undefined) => idempotencyKeyOf({ headers: { 'idempotency-key': value } });

test('a key is 1 to 255 visible ASCII characters, and a request may have none', (t) => {
  t.is(idempotencyKeyOf({ headers: {} }), undefined);
  for (const key of ['!', '~', 'order-17', 'x'.repeat(255)]) t.is(keyIn(key), key);
  for (const key of ['', 'order 17', 'é', 'a\tb', 'x'.repeat(256)]) {
    t.throws(() => keyIn(key), { code: 'VALIDATION_ERROR', message: /idempotency-key: must be 1 to 255/ }, key);
  }
});
