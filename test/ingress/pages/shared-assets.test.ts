import { gzipSync } from 'node:zlib';
import test from 'ava';
import { createAssetSet } from '../../../ingress/pages/asset-set.ts';
import { createSharedAssets } from '../../../ingress/pages/shared-assets.ts';
import { assetSetKey } from '../../../shared/redis/process-keys.ts';
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

function open() {
  let now = 0;
  const { log } = recordedLog();
  const shared = createSharedAssets({ redis: own.redis, log, now: () => now });
  return { ...shared, pass: (ms: number) => (now += ms) };
}

const isShared = async (name: string) => {
  const key = assetSetKey(name.slice(0, 16));
  while ((await own.redis.exists(key)) === 0) await new Promise(setImmediate);
  return key;
};

test('an ingress serves the assets of another release, as that release has made them', async (t) => {
  const [one, other] = [open(), open()];
  const { assets, nameOf } = setOf('of the first release');
  one.share(assets);
  const key = await isShared(nameOf('main.js'));
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
  open().share(assets);
  const key = await isShared(nameOf('main.js'));
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
  open().share(assets);
  await isShared(nameOf('main.js'));
  t.is(await reader.find(nameOf('main.js')), undefined);
  reader.pass(10_000);
  t.not(await reader.find(nameOf('main.js')), undefined);
  for (const name of ['', 'main.js', '../../x/main.js', `${'a'.repeat(16)}/main.exe`, `${'a'.repeat(16)}/__proto__.js`])
    t.is(await reader.find(name), undefined, name);
});

test('a set is shared again before it expires', async (t) => {
  const { assets, nameOf } = setOf('of a release that runs for long');
  const sharer = open();
  sharer.share(assets);
  const key = await isShared(nameOf('main.js'));
  await own.redis.del(key);
  sharer.share(assets);
  t.is(await own.redis.exists(key), 0, 'not at every page');
  sharer.pass(43_200_000);
  sharer.share(assets);
  await isShared(nameOf('main.js'));
  t.pass();
});
