import test from 'ava';
import { createWebhookSecrets, newWebhookSecret } from '../../../shared/webhooks/webhook-secrets.ts';

const [first, second] = ['a first key of at least 32 characters', 'a second key of at least 32 characters'] as const;

test('a new secret has 256 random bits in the form of Standard Webhooks', (t) => {
  const secrets = new Set(Array.from({ length: 20 }, newWebhookSecret));
  t.is(secrets.size, 20);
  for (const secret of secrets) {
    t.regex(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    t.is(Buffer.from(secret.slice('whsec_'.length), 'base64').length, 32);
  }
});

test('a secret is opened with any key, is sealed with the first, and differs each time', (t) => {
  const before = createWebhookSecrets([first]);
  const after = createWebhookSecrets([second, first]);
  const sealed = before.seal('wh_1', 'whsec_x');
  t.is(after.open('wh_1', sealed), 'whsec_x');
  t.not(before.seal('wh_1', 'whsec_x'), sealed);
  t.false(sealed.includes('whsec'));
  t.throws(() => before.open('wh_1', after.seal('wh_1', 'whsec_x')), { message: /WEBHOOK_SECRET_KEY/ });
});

test('a secret of another endpoint, or a changed one, is not opened', (t) => {
  const { seal, open } = createWebhookSecrets([first]);
  const sealed = seal('wh_1', 'whsec_x');
  t.throws(() => open('wh_2', sealed));
  t.throws(() => open('wh_1', ''));
  t.throws(() => open('wh_1', sealed.slice(0, -2)));
  const bytes = Buffer.from(sealed, 'base64url');
  for (let index = 0; index < bytes.length; index += 1) {
    const changed = Buffer.from(bytes);
    changed[index] = (changed[index] ?? 0) ^ 1;
    t.throws(() => open('wh_1', changed.toString('base64url')));
  }
});
