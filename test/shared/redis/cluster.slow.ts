import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { checkWritesOfNodes, createCheckWrites, pingsOfNodes } from '../../../shared/redis/check-redis.ts';
import { hashTagOf } from '../../../shared/redis/cluster.ts';
import {
  connectForWork,
  existingKeys,
  ifAvailable,
  inOneSlot,
  mastersOf,
  nodeOf,
  type Redis,
  readStrings,
  redisNow,
} from '../../../shared/redis/connections.ts';
import { guestMintsKey } from '../../../shared/redis/keys.ts';
import { loadScript } from '../../../shared/redis/load-lua.ts';
import { fieldsOf, openInbox } from '../../../shared/redis/stream-inbox.ts';
import { waitForRedis } from '../../../shared/redis/wait-for-redis.ts';
import { type ClusterSide, openClusterSide } from '../../support/cluster-side.ts';
import { recordedLog } from '../../support/recorded-log.ts';

let side: ClusterSide;

test.before(async () => {
  side = await openClusterSide();
});
test.after.always(() => side?.[Symbol.asyncDispose]());

/** Kills the node of the first of three keys, one on each node, while `work` runs, and starts it again. */
async function withoutFirst(
  keys: Awaited<ReturnType<ClusterSide['keys']>>,
  work: (keys: [dead: string, ...alive: string[]]) => Promise<void>,
): Promise<void> {
  const [first, ...others] = keys;
  if (first === undefined) throw new Error('no key');
  await first.holder.kill('SIGKILL');
  try {
    await work([first.key, ...others.map(({ key }) => key)]);
  } finally {
    await first.holder.restart();
    await side.cluster.untilWhole();
  }
}

function holds(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  );
}

async function until(t: ExecutionContext, holds: () => boolean | Promise<boolean>): Promise<void> {
  t.timeout(60_000);
  while (!(await holds())) await sleep(10);
}

test.serial('the tag of a key is what decides its slot', async (t) => {
  const redis = await side.connect(t);
  for (const [key, tag] of [
    ['svc:{p07}:outbox', 'p07'],
    ['{}x', '{}x'],
    ['plain', 'plain'],
    ['a{b{c}d', 'b{c'],
    ['a}b{c}', 'c'],
    ['a{}b{c}', 'a{}b{c}'],
  ] as const) {
    t.is(hashTagOf(key), tag);
    t.is(await side.cluster.slotOf(key), await side.cluster.slotOf(tag === key ? key : `{${tag}}`), key);
  }
  t.is(nodeOf(redis, 'svc:{p07}:outbox'), `127.0.0.1:${(await side.cluster.holderOf('{p07}')).port}`);
  t.deepEqual(inOneSlot(redis, ['{a}1', 'b', '{a}2']), [['{a}1', '{a}2'], ['b']]);
  t.deepEqual(mastersOf(redis).length, 3);
});

test.serial('keys of several slots are read together, and so are those that exist', async (t) => {
  const redis = await side.connect(t);
  const keys = Array.from({ length: 40 }, (_, index) => `read-${index}`);
  await Promise.all(keys.filter((_, index) => index % 2 === 0).map((key) => redis.set(key, `value of ${key}`)));
  const values = await readStrings(redis, keys);
  t.deepEqual(
    values,
    keys.map((key, index) => (index % 2 === 0 ? `value of ${key}` : null)),
  );
  t.deepEqual([...(await existingKeys(redis, keys))].sort(), keys.filter((_, index) => index % 2 === 0).sort());
});

test.serial('the time is that of the node of a key, or of any node', async (t) => {
  const redis = await side.connect(t);
  for (const key of [undefined, 'a', 'b', 'c']) {
    const before = Date.now();
    const now = await redisNow(redis, key);
    t.true(now >= before - 1 && now <= Date.now() + 1);
  }
});

test.serial(
  'a node that is down fails its own calls while it is down, is never sent them later, and fails no others',
  async (t) => {
    const redis = await side.connect(t);
    const keys = await side.keys('count-');
    await withoutFirst(keys, async ([dead, ...alive]) => {
      await t.throwsAsync(redis.incr(dead));
      await t.throwsAsync(redis.multi().incr(dead).exec(), undefined, 'a transaction too');
      for (const key of alive) t.is(await redis.incr(key), 1);
      t.deepEqual(await readStrings(redis, [dead, ...alive]), [undefined, '1', '1']);
      t.is(await ifAvailable(redis, redis.get(dead)), undefined);
    });
    await sleep(300); // longer than between two attempts
    t.is(await redis.get(keys[0]?.key ?? ''), null);
  },
);

test.serial('work waits for a node that is down, and other work does not', async (t) => {
  const redis = await side.connect(t, 'work');
  const keys = await side.keys('work-');
  let waiting: Promise<number> | undefined;
  await withoutFirst(keys, async ([dead, ...alive]) => {
    waiting = redis.incr(dead);
    for (const key of alive) t.is(await redis.incr(key), 1);
    t.is(
      await Promise.race([waiting, sleep(2_500, 'waits')]),
      'waits',
      'longer than the attempts that the library makes',
    );
  });
  t.is(await waiting, 1);
});

test.serial('while its slot moves, a script waits until all of its keys have moved', async (t) => {
  const redis = await side.connect(t);
  const both = loadScript(redis, {
    name: 'testBoth',
    lua: "return redis.call('EXISTS', KEYS[1], KEYS[2])",
    ...({ keys: 'one other', args: '' } as const),
  });
  await Promise.all(['{moves}1', '{moves}2', '{moves}3'].map((key) => redis.set(key, 'x')));
  const slot = await side.cluster.slotOf('{moves}1');
  const from = await side.cluster.holderOf('{moves}1');
  const to = (await side.cluster.masters()).find((node) => node !== from);
  if (to === undefined) return t.fail();
  const moving = side.cluster.moveSlot({ slot, to, pauseMs: 600 }); // longer in total than a call usually waits
  const keysLeft = () => from.redis.cluster('COUNTKEYSINSLOT', slot);
  await until(t, async () => (await keysLeft()) < 3);
  t.is(await both({ one: '{moves}1', other: '{moves}none' }), 1);
  await moving;
  t.is(await both({ one: '{moves}2', other: '{moves}3' }), 2);
  t.is(nodeOf(redis, '{moves}1'), `127.0.0.1:${to.port}`);
});

test.serial('networks of a client are counted together', async (t) => {
  const keys = ['2001:db8:7:1::/64', '2001:db8:7::/48', 'all'].map(guestMintsKey);
  t.is(new Set(await Promise.all(keys.map((key) => side.cluster.slotOf(key)))).size, 1);
});

test.serial('readiness needs one of the nodes with these keys, and lists all', async (t) => {
  const redis = await side.connect(t);
  const states = async () => {
    const entries = Object.entries(checkWritesOfNodes('redis', redis));
    return Object.fromEntries(await Promise.all(entries.map(async ([name, check]) => [name, await holds(check())])));
  };
  const keys = await side.keys('ready-');
  const names = keys.map(({ holder }) => `redis 127.0.0.1:${holder.port}`);
  t.deepEqual(await states(), Object.fromEntries(names.map((name) => [name, true])));
  await withoutFirst(keys, async ([dead, ...alive]) => {
    const checkWrites = createCheckWrites(redis);
    t.true(await holds(checkWrites([dead, ...alive])));
    t.false(await holds(checkWrites([dead])));
    t.deepEqual(await states(), Object.fromEntries(names.map((name, index) => [name, index > 0])));
    const { lines, log } = recordedLog();
    const started = await side.connect(t);
    const { memoryBytes } = await waitForRedis([started], { signal: AbortSignal.timeout(30_000), log });
    t.true(memoryBytes > 0, 'a process starts without that node');
    t.true(lines.length <= 1);
  });
});

test.serial('a node that refuses writes is named, and the others are enough', async (t) => {
  const redis = await side.connect(t);
  const keys = await side.keys('full-');
  for (const { key } of keys) await redis.exists(key);
  const full = keys[0]?.key ?? '';
  const nodeFull = mastersOf(redis).find(({ options: { host, port } }) => `${host}:${port}` === nodeOf(redis, full));
  await nodeFull?.config('SET', 'maxmemory', '1');
  try {
    const refusals = await Promise.all(
      Object.entries(checkWritesOfNodes('redis', redis)).map(async ([name, check]) => [
        name,
        await check().then(() => '', String),
      ]),
    );
    t.deepEqual(
      refusals.filter(([, refusal]) => refusal !== '').map(([name]) => name),
      [`redis ${nodeOf(redis, full)}`],
    );
    t.regex(String(Object.fromEntries(refusals)[`redis ${nodeOf(redis, full)}`]), /OOM/);
    t.true(await holds(createCheckWrites(redis)(keys.map(({ key }) => key))));
    t.false(await holds(createCheckWrites(redis)([full])));
    const pings = pingsOfNodes(redis);
    t.deepEqual(Object.keys(pings), Object.keys(checkWritesOfNodes('', redis)), 'it can be reached');
    await t.notThrowsAsync(Promise.all(Object.values(pings).map((ping) => ping())));
  } finally {
    await nodeFull?.config('SET', 'maxmemory', '0');
  }
});

test.serial('a node whose connection was lost is found again by the checks alone', async (t) => {
  const redis = await side.connect(t);
  const keys = await side.keys('quiet-');
  for (const { key } of keys) await redis.exists(key);
  const states = () => Promise.all(Object.values(checkWritesOfNodes('redis', redis)).map((check) => holds(check())));
  t.deepEqual(await states(), [true, true, true]);
  const killer = await side.connect(t);
  for (const { key } of keys) await killer.exists(key);
  await mastersOf(killer)[0]?.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  await until(t, () => mastersOf(redis).length === 2);
  await until(t, async () => (await states()).every((answers) => answers));
  t.is(mastersOf(redis).length, 3);
});

test.serial('a connection that closes during a redirection does not end the process', async (t) => {
  const redis = await side.connect(t, 'work');
  for (const { key } of await side.keys('asking-')) await redis.exists(key);
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => unhandled.push(reason);
  process.on('unhandledRejection', note);
  t.teardown(() => process.off('unhandledRejection', note));
  const [node] = mastersOf(redis);
  void node?.asking(); // as the library does
  node?.stream.destroy();
  await until(t, () => mastersOf(redis).length < 3);
  await sleep(50);
  t.deepEqual(unhandled, []);
});

type Inbox = { inbox: ReturnType<typeof openInbox>; taken: string[]; lost: string[] };

async function openMovable(t: ExecutionContext, isInUse: (key: string) => boolean): Promise<Inbox> {
  const redis = await side.connect(t);
  const { log } = recordedLog();
  const connectReader = () => connectForWork(side.cluster.url, log);
  const taken: string[] = [];
  const lost: string[] = [];
  const inbox = openInbox({
    ...{ redis, connectReader, isInUse, log },
    keyOf: (id) => `test:stream:${id}`,
    onEntry(entry) {
      const { text } = fieldsOf(entry);
      if (text !== undefined) taken.push(text);
      return false;
    },
    onLost: (key) => lost.push(key),
  });
  t.teardown(() => inbox[Symbol.asyncDispose]());
  await until(t, () => inbox.address() !== undefined);
  return { inbox, taken, lost };
}

const write = (redis: Redis, key: string, text: string) => redis.xadd(key, 'NOMKSTREAM', '*', 'text', text);

test.serial(
  'a stream moves to another node while its own is down, and the old one is read when it is back',
  async (t) => {
    const { inbox, taken, lost } = await openMovable(t, () => true);
    const first = inbox.address() ?? '';
    const holder = await side.cluster.holderOf(first);
    const writer = await side.connect(t, 'work');
    await write(writer, first, 'before');
    await until(t, () => taken.length === 1);
    await holder.kill('SIGSTOP');
    const late = write(writer, first, 'while it was silent');
    await until(t, () => ![undefined, first].includes(inbox.address()));
    const second = inbox.address() ?? '';
    await holder.kill('SIGCONT');
    t.not((await side.cluster.holderOf(second)).id, holder.id);
    await write(writer, second, 'to the new stream');
    await until(t, () => taken.length === 3);
    await late;
    t.deepEqual(taken.toSorted(), ['before', 'to the new stream', 'while it was silent']);
    t.deepEqual(lost, []);
  },
);

test.serial('a stream whose node stays away is lost, and one that is not in use is removed', async (t) => {
  const { inbox, lost } = await openMovable(t, (key) => key === first);
  const first: string = inbox.address() ?? '';
  const holder = await side.cluster.holderOf(first);
  await holder.kill('SIGKILL');
  try {
    await until(t, () => lost.length > 0);
    t.deepEqual(lost, [first]);
    t.not(inbox.address(), undefined);
  } finally {
    await holder.restart();
    await side.cluster.untilWhole();
  }
});
