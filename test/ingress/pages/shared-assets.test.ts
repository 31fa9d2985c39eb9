import { gzipSync } from 'node:zlib';
import test from 'ava';
import { createSharedAssets } from '../../../ingress/pages/shared-assets.ts';
import { createAssetSet } from '../../../ingress/pages/static-content.ts';
import type { Redis } from '../../../shared/redis/connections.ts';
import { assetSetKey } from '../../../shared/redis/keys.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';

let own: RedisDatabase;
test.before(async () => {
  own = await openRedisDatabase();
});
test.after.always(() => own?.[Symbol.asyncDispose]());

const setOf = (text: string) =>
  createAssetSet(
    new Map([
      ['main.js', text],
      ['styles/page.css', `/* ${text} ü */`],
    ]),
  );

function open(redis = own.redis) {
  let now = 1;
  const { log } = recordedLog();
  const shared = createSharedAssets({ redis, log, now: () => now });
  return { ...shared, pass: (ms: number) => (now += ms) };
}

const keyOf = (name: string) => assetSetKey(name.slice(0, 16));

test('an ingress serves the assets of another release, as that release has made them', async (t) => {
  const [one, other] = [open(), open()];
  const { assets, nameOf } = setOf('of the first release');
  await one.share(assets);
  const key = keyOf(nameOf('main.js'));
  t.true((await own.redis.ttl(key)) > 86_000);
  for (const path of ['main.js', 'styles/page.css']) {
    const found = await other.find(nameOf(path));
    t.deepEqual(found?.bytes, assets.get(nameOf(path))?.bytes, path);
    t.is(found?.type, assets.get(nameOf(path))?.type);
  }
  t.is(await other.find(nameOf('main.js').replace('main', 'other')), undefined);
});

test('a set that was changed in Redis is not served', async (t) => {
  const { assets, nameOf } = setOf('of a release that is attacked');
  await open().share(assets);
  const key = keyOf(nameOf('main.js'));
  const files = [...assets].map(([name]) => [name.slice(17), 'alert(1)']);
  await own.redis.set(key, gzipSync(JSON.stringify(files)));
  t.is(await open().find(nameOf('main.js')), undefined);
  await own.redis.set(key, 'no archive');
  t.is(await open().find(nameOf('main.js')), undefined);
});

test('a release that is not there is asked for again only after a while, however many names are asked for', async (t) => {
  const { assets, nameOf } = setOf('of a later release');
  const reader = open();
  t.is(await reader.find(nameOf('main.js')), undefined);
  await open().share(assets);
  t.is(await reader.find(nameOf('main.js')), undefined);
  reader.pass(1_001);
  t.not(await reader.find(nameOf('main.js')), undefined);
  for (const name of ['', 'main.js', '../../x/main.js', `${'a'.repeat(16)}/main.exe`, `${'a'.repeat(16)}/__proto__.js`])
    t.is(await reader.find(name), undefined, name);
});

test('a client that asks for many releases causes few calls, and known ones stay known', async (t) => {
  const [known, later] = [setOf('of the release before'), setOf('of the release after')];
  let calls = 0;
  const getBuffer = (key: string) => {
    calls += 1;
    return own.redis.getBuffer(key);
  };
  const reader = open({ getBuffer } as Redis); // all that is read with
  await open().share(known.assets);
  await open().share(later.assets);
  t.not(await reader.find(known.nameOf('main.js')), undefined);
  const unknown = Array.from({ length: 1_000 }, (_, index) => `${String(index).padStart(16, '0')}/main.js`);
  await Promise.all(unknown.map((name) => reader.find(name)));
  t.is(calls, 20);
  t.is(await reader.find(later.nameOf('main.js')), undefined);
  t.not(await reader.find(known.nameOf('main.js')), undefined);
  reader.pass(1_001);
  t.not(await reader.find(later.nameOf('main.js')), undefined);
  t.is(calls, 21);
});

test('a set is shared again before it expires', async (t) => {
  const { assets, nameOf } = setOf('of a release that runs for long');
  const sharer = open();
  await sharer.share(assets);
  const key = keyOf(nameOf('main.js'));
  await own.redis.del(key);
  await sharer.share(assets);
  t.is(await own.redis.exists(key), 0, 'not at every page');
  sharer.pass(43_200_000);
  await sharer.share(assets);
  t.is(await own.redis.exists(key), 1);
});

test('pages that are asked for at once wait for the same sharing, and after a failure it is tried again later', async (t) => {
  const { assets } = setOf('of a release whose Redis is away');
  const asked: PromiseWithResolvers<'OK'>[] = [];
  const sharer = open({
    set() {
      const one = Promise.withResolvers<'OK'>();
      asked.push(one);
      return one.promise;
    },
  } as unknown as Redis); // all that is written with
  const pages = Promise.all([sharer.share(assets), sharer.share(assets)]);
  while (asked.length === 0) await new Promise(setImmediate);
  asked[0]?.reject(new Error('away'));
  await pages;
  await sharer.share(assets);
  t.is(asked.length, 1);
  sharer.pass(10_000);
  const later = sharer.share(assets);
  while (asked.length === 1) await new Promise(setImmediate);
  asked[1]?.resolve('OK');
  await later;
  t.is(asked.length, 2);
});

test('a page does not wait long for a Redis that does not answer', async (t) => {
  const { assets } = setOf('of a release whose Redis hangs');
  const never = { set: () => new Promise(() => {}) } as unknown as Redis; // all that is written with
  await open(never).share(assets);
  t.pass();
});
