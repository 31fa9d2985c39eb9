import { createHash } from 'node:crypto';
import test from 'ava';
import fc from 'fast-check';
import { fingerprint, hashKey, isWellFormedKey } from '../../../ingress/authentication/api-key.ts';
import { createGuestKeys } from '../../../ingress/authentication/change-keys.ts';

const [older, newer] = ['the secret that minted before', 'the secret that mints now'];
const [pepperBefore, pepperNow] = ['the pepper of before', 'the pepper of now'];
const deviceId = 'the-phone-of-ann';

const before = createGuestKeys({ secrets: [older], peppers: [pepperBefore] });
const during = createGuestKeys({ secrets: [newer, older], peppers: [pepperNow, pepperBefore] });
const after = createGuestKeys({ secrets: [newer], peppers: [pepperNow] });

test('a device gets the same key each time, from every ingress that has the same secrets', (t) => {
  const [one, another] = [1, 2].map(() => createGuestKeys({ secrets: [newer], peppers: [pepperNow] }));
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' }), (id, otherId) => {
      const minted = one?.mint(id);
      t.true(isWellFormedKey(minted?.key ?? ''));
      t.deepEqual(another?.mint(id), minted);
      t.is(one?.remake(id, after.mint(id).guest), minted?.key);
      t.is(one?.accountOf(id), another?.accountOf(id));
      if (id !== otherId) t.not(one?.mint(otherId).key, minted?.key);
      if (id !== otherId) t.not(one?.accountOf(otherId), one?.accountOf(id));
    }),
  );
});

test('the first of several secrets mints, and the hash is under the first pepper', (t) => {
  const { key, hash, guest } = during.mint(deviceId);
  t.is(key, after.mint(deviceId).key);
  t.not(key, before.mint(deviceId).key);
  t.is(hash, hashKey(key, pepperNow));
  t.deepEqual(guest, { secret: fingerprint(newer), pepper: fingerprint(pepperNow) });
});

test('a key that was made with another secret in use is derived again with that secret', (t) => {
  const minted = before.mint(deviceId);
  t.is(during.remake(deviceId, minted.guest), minted.key);
  t.not(during.mint(deviceId).key, minted.key);
});

test('a device keeps its key while its secret is in use, under the first pepper', (t) => {
  const made = before.mint(deviceId);
  const renewed = during.mint(deviceId, made.guest);
  t.is(renewed.key, made.key);
  t.is(renewed.hash, hashKey(made.key, pepperNow));
  t.deepEqual(renewed.guest, { secret: made.guest.secret, pepper: fingerprint(pepperNow) });
  t.deepEqual(after.mint(deviceId, made.guest), after.mint(deviceId), 'then it gets another key');
});

test('ingresses identify their secrets equally only if they have the same, and reveal nothing of them', (t) => {
  const others = [
    before,
    during,
    after,
    createGuestKeys({ secrets: [older, newer], peppers: [pepperNow, pepperBefore] }),
    createGuestKeys({ secrets: [newer, older], peppers: [pepperNow] }),
    createGuestKeys({ secrets: [newer], peppers: [pepperNow, pepperBefore] }),
  ];
  t.is(new Set(others.map(({ secretsInUse }) => secretsInUse)).size, others.length);
  for (const { secretsInUse } of others) t.regex(secretsInUse, /^[0-9a-f]{16}$/);
  t.is(createGuestKeys({ secrets: [newer], peppers: [pepperNow] }).secretsInUse, after.secretsInUse);
});

test('a key is valid while its secret and its pepper are configured, at any position', (t) => {
  const fresh = after.mint(deviceId).guest;
  const old = before.mint(deviceId).guest;
  t.true(during.inUse(fresh));
  t.true(during.inUse(old));
  t.true(during.inUse({ secret: old.secret, pepper: fresh.pepper }));
  t.true(during.inUse({ secret: fresh.secret, pepper: old.pepper }));
  t.true(after.inUse(fresh));
  t.false(after.inUse(old));
  t.false(after.inUse({ secret: old.secret, pepper: fresh.pepper }));
  t.false(after.inUse({ secret: fresh.secret, pepper: old.pepper }));
  t.false(after.inUse({ secret: fresh.pepper, pepper: fresh.secret }), 'each kind has its separate list');
  t.throws(() => after.remake(deviceId, old), { message: /not in use/ });
});

test('a device is stored under the SHA-256 of its id', (t) => {
  t.is(before.accountOf(deviceId), `device:${createHash('sha256').update(deviceId).digest('hex')}`);
  t.is(before.accountOf(deviceId), after.accountOf(deviceId), 'with any secrets');
});

test('no result contains the id of a device or a secret', (t) => {
  const { key, ...kept } = during.mint(deviceId);
  const out = JSON.stringify([during.accountOf(deviceId), key, kept, during.remake(deviceId, kept.guest)]);
  for (const text of [deviceId, older, newer, pepperBefore, pepperNow]) {
    for (let place = 0; place + 8 <= text.length; place++) t.false(out.includes(text.slice(place, place + 8)));
  }
  t.false(
    JSON.stringify([during.accountOf(deviceId), kept]).includes(key.slice(4, 14)),
    'stored values do not contain the key',
  );
});
