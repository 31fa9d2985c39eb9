import { createHmac } from 'node:crypto';
import test from 'ava';
import fc from 'fast-check';
import { createHmacOf } from '../../ingress/hmac.ts';

test('the result is that of HMAC-SHA-256, for a secret of any length and any text', (t) => {
  // RFC 4231, test case 2.
  const short = createHmacOf('Jefe');
  t.is(short('what do ya want for nothing?'), '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843');
  const secrets = [
    ...['', 'a', 'é'.repeat(32), 'é'.repeat(33)],
    ...[63, 64, 65, 200].map((length) => 'k'.repeat(length)),
  ];
  fc.assert(
    fc.property(fc.oneof(fc.constantFrom(...secrets), fc.string({ unit: 'binary' })), fc.string(), (secret, text) => {
      const hashUnder = createHmacOf(secret);
      for (const each of [text, `${text}é`, '']) {
        t.is(hashUnder(each), createHmac('sha256', secret).update(each).digest('hex'));
      }
    }),
    { numRuns: 300 },
  );
});
