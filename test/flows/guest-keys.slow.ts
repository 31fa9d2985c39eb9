import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { type Stack, startStack } from '../stack/stack.ts';
import { type Answer, createKeyClient, fullKey, type KeyClient } from '../support/key-client.ts';
import { openRedis } from '../support/open-redis.ts';
import { contentsOf } from '../support/redis-contents.ts';

/** Prefix of every device id in this file, so that stored data can be searched for it. */
const mark = 'pseudonym-';
const mintsPerHour = 20;
const addressOf = (host: number) => `198.51.100.${host}`;
const from = (address: string) => ({ 'x-forwarded-for': address });

let stack: Stack;
/** The first ingress trusts no proxy. */
let direct: KeyClient;
/** The caller of this one is a trusted proxy. */
let proxied: KeyClient;
let secrets: { KEY_PEPPER: string; GUEST_KEY_SECRET: string };

test.before(async () => {
  stack = await startStack({ env: { LOG_LEVEL: 'trace' } });
  direct = createKeyClient(stack);
  proxied = await startIngress({ TRUST_PROXY: '1' });
  secrets = JSON.parse(await readFile(join(stack.directory, 'secrets.json'), 'utf8'));
});

test.after.always(() => stack?.[Symbol.asyncDispose]());

async function startIngress(env: Record<string, string>): Promise<KeyClient> {
  const { url } = await stack.startIngress(env);
  return createKeyClient(stack, { url: () => url });
}

/** Mints keys for new devices, one after the other. Returns the status of each. */
async function mintMany(keys: KeyClient, count: number, name: string, headers = {}): Promise<number[]> {
  const statuses: number[] = [];
  for (let index = 0; index < count; index++) {
    statuses.push((await keys.guest(`${mark}${name}-${index}`, headers)).status);
  }
  return statuses;
}

const allIn = Array(mintsPerHour).fill(200);

function isLimited(t: ExecutionContext, { status, headers, body }: Answer): void {
  t.is(status, 429);
  t.is(headers.get('x-should-retry'), 'false');
  t.is(headers.get('cache-control'), 'no-store');
  const { error } = body as { error: { retry_after_ms: number } }; // a response of the service itself
  t.like(error, { code: 'rate_limit_exceeded', type: 'guest_mints', param: null });
  t.true(error.retry_after_ms > 3_000_000 && error.retry_after_ms <= 3_600_000);
  t.is(headers.get('retry-after-ms'), String(error.retry_after_ms));
  t.is(headers.get('retry-after'), String(Math.ceil(error.retry_after_ms / 1000)));
}

test.serial(
  'an address gets a fixed number of new devices an hour; known devices do not count, before or after',
  async (t) => {
    const first = await direct.guest(`${mark}limit-0`);
    t.is(first.status, 200);
    for (let index = 0; index < 5; index++) t.deepEqual((await direct.guest(`${mark}limit-0`)).body, first.body);
    t.deepEqual(await mintMany(direct, mintsPerHour, 'limit'), allIn);
    isLimited(t, await direct.guest(`${mark}limit-${mintsPerHour}`));
    t.deepEqual((await direct.guest(`${mark}limit-0`)).body, first.body);
    t.is((await direct.models(String(first.body.key))).status, 200);
  },
);

test.serial('without a trusted proxy, a client gets no fresh count by writing X-Forwarded-For', async (t) => {
  const claims = ['203.0.113.1', '203.0.113.2, 203.0.113.3', '2001:db8::1', 'unknown', '', '127.0.0.2'];
  for (const claim of claims)
    isLimited(t, await direct.guest(`${mark}claims ${claim}`.replace(/[ ,]/g, '.'), from(claim)));
});

test.serial(
  'behind a proxy each address it names has its own count, regardless of addresses that the client adds before it',
  async (t) => {
    t.deepEqual(await mintMany(proxied, mintsPerHour, 'one', from(addressOf(1))), allIn);
    isLimited(t, await proxied.guest(`${mark}one-more`, from(addressOf(1))));
    t.is((await proxied.guest(`${mark}two`, from(addressOf(2)))).status, 200);
    for (const claim of [addressOf(2), 'unknown', '2001:db8::1', addressOf(3)]) {
      isLimited(t, await proxied.guest(`${mark}one-more`, from(`${claim}, ${addressOf(1)}`)));
      isLimited(t, await proxied.guest(`${mark}one-more`, from(`${claim}, ${addressOf(1)}:4711`)));
      isLimited(t, await proxied.guest(`${mark}one-more`, from(`${claim}, ::ffff:${addressOf(1)}`)));
    }
  },
);

test.serial('an IPv6 client is counted by its /64; another address in it does not help', async (t) => {
  const hosts = Array.from({ length: mintsPerHour }, (_, index) => from(`2001:db8:0:1:${index}::${index}`));
  for (const [index, headers] of hosts.entries()) {
    t.is((await proxied.guest(`${mark}six-${index}`, headers)).status, 200);
  }
  isLimited(t, await proxied.guest(`${mark}six`, from('[2001:db8:0:1:ffff::1]:443')));
  t.is((await proxied.guest(`${mark}six`, from('2001:db8:0:2::1'))).status, 200);
});

test.serial(
  'of 40 new devices at once exactly the limit is admitted, and each of those is admitted again',
  async (t) => {
    const mint = (index: number) => proxied.guest(`${mark}crowd-${index}`, from(addressOf(4)));
    const answers = await Promise.all(Array.from({ length: 40 }, (_, index) => mint(index)));
    const statuses = answers.map(({ status }) => status);
    t.is(statuses.filter((status) => status === 200).length, mintsPerHour);
    t.is(statuses.filter((status) => status === 429).length, 40 - mintsPerHour);
    for (const [index, { status, body }] of answers.entries()) {
      if (status === 200) t.deepEqual((await mint(index)).body, body);
    }
  },
);

const visible = '8 to 256 visible characters';
const wrong: [title: string, deviceId: unknown, about: string][] = [
  ['none', undefined, 'device_id'],
  ['null', null, 'device_id'],
  ['a number', 1_234_567_890, 'device_id'],
  ['an object', { $ne: mark }, 'device_id'],
  ['a list', [mark], 'device_id'],
  ['empty', '', visible],
  ['seven characters', 'a'.repeat(7), visible],
  ['257 characters', mark.padEnd(257, 'a'), visible],
  ['257 emoji', '😀'.repeat(257), visible],
  ['seven emoji, which are 14 in UTF-16', '😀'.repeat(7), visible],
  ['a space', `${mark}a b`, visible],
  ['a space at its end', `${mark} `, visible],
  ['spaces only', ' '.repeat(20), visible],
  ['a no-break space', `${mark}\u00a0`, visible],
  ['a line break', `${mark}\n`, visible],
  ['NUL', `${mark}\0`, visible],
  ['DEL', `${mark}\x7f`, visible],
  ['a C1 control character', `${mark}\x85`, visible],
  ['a zero-width joiner', `${mark}\u200d`, visible],
  ['a change of text direction', `${mark}\u202e`, visible],
  ['half an emoji', `${mark}\ud83d`, visible],
  ['a private-use character', `${mark}\ue000`, visible],
];

for (const [title, deviceId, about] of wrong) {
  test.serial(`an invalid device id gets 400 and names the field: ${title}`, async (t) => {
    const { status, headers, body } = await proxied.guest(deviceId, from(addressOf(5)));
    t.is(status, 400);
    t.is(headers.get('cache-control'), 'no-store');
    t.deepEqual(Object.keys(body).sort(), ['code', 'error']);
    t.is(body.code, 'VALIDATION_ERROR');
    t.regex(String(body.error), /^device_id: /);
    t.true(String(body.error).includes(about));
    t.false(String(body.error).includes(mark), 'and does not repeat it');
  });
}

test.serial('a body with any other field gets 400 that names it; refused calls cost no mint', async (t) => {
  const body = { device_id: `${mark}extra`, plan: 'pro' };
  const refused = await proxied.send('POST', '/v1/keys/guest', { body, headers: from(addressOf(5)) });
  t.deepEqual([refused.status, refused.body], [400, { error: 'plan: is not known', code: 'VALIDATION_ERROR' }]);
  t.deepEqual(await mintMany(proxied, mintsPerHour, 'after-faults', from(addressOf(5))), allIn);
});

test.serial('any 8 to 256 visible characters make a device id, regardless of their length in bytes', async (t) => {
  const ids = [
    'a'.repeat(8),
    'a'.repeat(256),
    '😀'.repeat(8),
    '😀'.repeat(256),
    'ключ-устройства',
    '端末の識別子です！',
    '"\\/<>{}%00',
  ];
  const keys = new Set<string>();
  for (const id of ids) {
    const { status, body } = await proxied.guest(id, from(addressOf(6)));
    t.is(status, 200, id);
    t.regex(String(body.key), fullKey);
    t.is((await proxied.guest(id, from(addressOf(6)))).body.key, body.key);
    keys.add(String(body.key));
  }
  t.is(keys.size, ids.length);
});

const fresh = 'the secret that an operator created to replace the first';

/** Three releases one after the other: with the current secret, with a new one before it, and with only the new one. */
async function rotateSecret(t: ExecutionContext, name: 'KEY_PEPPER' | 'GUEST_KEY_SECRET', host: number) {
  const headers = from(addressOf(host));
  const old = `${mark}old-${name}`;
  const key = String((await proxied.guest(old, headers)).body.key);
  const during = await startIngress({ TRUST_PROXY: '1', [name]: `${fresh},${secrets[name]}` });
  t.is((await during.models(key)).status, 200, 'an earlier key still works');
  t.is((await during.guest(old, headers)).body.key, key, 'and its device still gets it');
  const between = String((await during.guest(`${mark}between-${name}`, headers)).body.key);
  t.is((await during.models(between)).status, 200);

  const after = await startIngress({ TRUST_PROXY: '1', [name]: fresh });
  t.is((await after.models(between)).status, 200);
  t.is((await after.guest(`${mark}between-${name}`, headers)).body.key, between, 'a new device has the new key');
  t.is((await during.models(key)).status, 200);
  const refused = await after.models(key);
  t.deepEqual([refused.status, refused.body.code], [401, 'INVALID_KEY'], 'a key of the withdrawn secret is rejected');
  const next = String((await after.guest(old, headers)).body.key);
  t.is((await after.models(next)).status, 200, 'immediately, although it was refused a moment ago');
  t.is((await during.models(next)).status, 200);
  return { key, next };
}

test.serial(
  'a guest secret is replaced without interruption: old devices keep their key until it is withdrawn',
  async (t) => {
    const { key, next } = await rotateSecret(t, 'GUEST_KEY_SECRET', 8);
    t.not(next, key, 'a key that may be known to others is not issued again');
  },
);

test.serial(
  'a pepper is replaced without interruption: after it is withdrawn, the next mint makes the same key work again',
  async (t) => {
    const { key, next } = await rotateSecret(t, 'KEY_PEPPER', 9);
    t.is(next, key);
  },
);

test.serial(
  'while Redis is unavailable a known device gets its key, and a new one gets 503 until Redis is back',
  async (t) => {
    const known = await proxied.guest(`${mark}away`, from(addressOf(10)));
    await stack.redis?.kill('SIGKILL');
    t.deepEqual((await proxied.guest(`${mark}away`, from(addressOf(10)))).body, known.body);
    const { status, headers, body } = await proxied.guest(`${mark}away-too`, from(addressOf(10)));
    t.deepEqual([status, body.code], [503, 'SERVICE_UNAVAILABLE']);
    t.truthy(headers.get('retry-after'));
    await stack.redis?.restart();
    let back = 503;
    while (back === 503) {
      await sleep(200); // a network has sixty calls a minute
      back = (await proxied.guest(`${mark}away-too`, from(addressOf(10)))).status;
    }
    t.is(back, 200);
  },
);

test.serial('no device id is in Redis, in the store or in a log', async (t) => {
  const redis = openRedis(stack.redisUrl);
  t.teardown(() => redis.disconnect());
  const kept: [name: string, text: string][] = [['Redis', await contentsOf(redis)]];
  for (const file of await readdir(stack.directory, { recursive: true, withFileTypes: true })) {
    if (!file.isFile()) continue;
    kept.push([file.name, await readFile(join(file.parentPath, file.name), 'latin1')]);
  }
  for (const process of stack.started()) kept.push(['a log', JSON.stringify(process.logs) + process.errors()]);
  t.true(kept.some(([name]) => name === 'store.sqlite') && kept.some(([name]) => name.endsWith('.aof')));
  t.true(
    kept.some(([, text]) => text.includes('device:')),
    'devices are stored by their hash',
  );
  const bytes = Buffer.from(mark.slice(0, 9)); // nine bytes, three times three, so that the base64 form does not depend on what follows
  for (const [name, text] of kept) {
    for (const form of [mark, bytes.toString('base64'), bytes.toString('hex'), encodeURIComponent('😀😀'), '😀😀']) {
      t.false(text.includes(form), `${form} in ${name}`);
    }
  }
});
