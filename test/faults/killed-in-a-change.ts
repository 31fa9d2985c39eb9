import type { ExecutionContext, TestFn } from 'ava';
import { Redis } from 'ioredis';
import { changesKey, versionKey } from '../../shared/redis/keys.ts';
import { type RunningIngress, type Stack, startStack } from '../stack/stack.ts';
import { createKeyClient, type KeyClient, masked } from '../support/key-client.ts';
import { databaseUrl, type MongoServer } from '../support/mongodb/start-mongo.ts';
import { scriptDescription } from '../support/script-description.ts';
import { addressIn, startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

/*
 * An ingress that changes a key is held at an exact point by a proxy between it and Redis, and killed there. Its store is in its own
 * process, so the Redis command it waits for shows its progress: marked, changed, unmarked.
 */
const scriptOf = (name: string) => scriptDescription(`shared/account-changes/${name}.lua`);
/** A new ingress sends the text of a script at first, from then on its hash. */
const mark = scriptOf('mark-change');
const unmark = scriptOf('unmark-change');

type Registrar = {
  test: TestFn;
  /** The database server of the store, stopped after the service. Omit it to use the embedded store. */
  mongo?: MongoServer;
  /** The number of kills at each point, each with and without another change in between. */
  kills: number;
};

let stack: Stack;
let redis: Redis;
/** Two ingresses that keep running. The first makes the other changes. */
let bystander: KeyClient;
let another: KeyClient;

type Victim = AsyncDisposable & { ingress: RunningIngress; proxy: TcpProxy; keys: KeyClient };

async function startVictim(): Promise<Victim> {
  const proxy = await startTcpProxy(addressIn(stack.redisUrl));
  const ingress = await stack.startIngress({ REDIS_URL: `redis://127.0.0.1:${proxy.port}` });
  return {
    ingress,
    proxy,
    keys: createKeyClient(stack, { url: () => ingress.url }),
    [Symbol.asyncDispose]: async () => {
      ingress.process.kill('SIGKILL');
      await ingress.process.exited;
      await proxy[Symbol.asyncDispose]();
    },
  };
}

type Point = {
  title: string;
  hold: (proxy: TcpProxy) => Promise<void>;
  /** Expected in Redis while the ingress is held at this point. */
  marks: number;
  changed: boolean;
};

const points: readonly Point[] = [
  { title: 'before the mark', hold: (proxy) => proxy.holdBefore(mark), marks: 0, changed: false },
  {
    title: 'between mark and store',
    hold: (proxy) => proxy.holdAfter(mark),
    marks: 1,
    changed: false,
  },
  {
    title: 'between store and unmark',
    hold: (proxy) => proxy.holdBefore(unmark),
    marks: 1,
    changed: true,
  },
  {
    title: 'between unmark and answer',
    hold: (proxy) => proxy.holdAfter(unmark),
    marks: 0,
    changed: true,
  },
];

const seconds = ['nothing', 'a suspension and its end', 'another plan', 'another rotation'] as const;
type Second = (typeof seconds)[number];

/** Tests that wherever an ingress is killed, no dead key is accepted and no live one refused, with and without other changes in between. */
export function testKilledInAChange({ test, mongo, kills }: Registrar): void {
  const parts = new AsyncDisposableStack();
  test.before(async () => {
    if (mongo !== undefined) parts.use(mongo);
    const storeUrl = mongo && databaseUrl(mongo.url, `killed_${process.pid}`);
    stack = parts.use(await startStack({ ingresses: 2, databaseUrl: storeUrl }));
    redis = parts.adopt(new Redis(stack.redisUrl), (connection) => connection.disconnect());
    bystander = createKeyClient(stack);
    another = createKeyClient(stack, { url: () => stack.ingresses[1]?.url ?? '' });
  });
  test.after.always(() => parts.disposeAsync());

  for (const [place, point] of points.entries()) {
    for (const inBetween of [false, true]) {
      const beside = inBetween ? ', with another change to the same account in between' : '';
      const title = `${kills} killed ${point.title}${beside}: no dead key works, no live key is refused`;
      test.serial(title, async (t) => {
        let next = startVictim();
        for (let kill = 0; kill < kills; kill++) {
          const victim = await next;
          if (kill + 1 < kills) next = startVictim();
          const second = inBetween ? (seconds[1 + ((place + kill) % 3)] ?? 'nothing') : 'nothing';
          await killAt(t, victim, {
            ...point,
            account: `${point.title} ${inBetween} ${kill}`.replaceAll(' ', '-'),
            second,
          });
        }
      });
    }
  }
}

type Trial = Point & { account: string; second: Second };

async function killAt(t: ExecutionContext, victim: Victim, { account, second, ...point }: Trial): Promise<void> {
  const key = await bystander.newKey(account);
  t.deepEqual(await statusesOf(key), works, 'every running ingress knows the key');
  let keyState = { account, key, rotations: point.changed ? 1 : 0 };
  {
    await using dying = victim;
    const reached = point.hold(dying.proxy);
    const lost = dying.keys.rotate(account, key).catch(() => 'lost');
    await reached;
    dying.ingress.process.kill('SIGSTOP'); // otherwise it would stop waiting for Redis and continue
    while ((await redis.zcard(changesKey(`user:${account}`))) !== point.marks) await nextTurn();
    await provesWhoLives(t, keyState);
    keyState = await changeBeside(t, keyState, second);
    await provesWhoLives(t, keyState);
    dying.ingress.process.kill('SIGKILL');
    t.is(await lost, 'lost', 'no response to this rotation arrived');
  }
  await provesWhoLives(t, keyState);
  await provesItEnds(t, keyState);
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

async function statusesOf(key: string): Promise<number[]> {
  const answers = await Promise.all([bystander.models(key), another.models(key), bystander.infer(key)]);
  return answers.map(({ status }) => status);
}

const works = [200, 200, 200];
const isDead = [401, 401, 401];

/** `rotations` counts the rotations of the account's first key, `key`, and of its successors. */
type KeyState = { account: string; key: string; rotations: number };

async function changeBeside(t: ExecutionContext, keyState: KeyState, second: Second): Promise<KeyState> {
  const { account } = keyState;
  const id = `user:${account}`;
  if (second === 'a suspension and its end') {
    t.is((await bystander.change(id, { suspended: true })).status, 200);
    t.is((await bystander.change(id, { suspended: false })).status, 200);
  }
  if (second === 'another plan') t.is((await bystander.change(id, { plan: 'pro' })).status, 200);
  if (second !== 'another rotation') return keyState;
  const [active] = await bystander.list(account);
  const { status, body } = await bystander.rotate(account, active?.key ?? '');
  t.is(status, 200);
  t.deepEqual(await statusesOf(String(body.key)), works);
  return { ...keyState, rotations: keyState.rotations + 1 };
}

async function provesWhoLives(t: ExecutionContext, { account, key, rotations }: KeyState): Promise<void> {
  t.deepEqual(await statusesOf(key), rotations > 0 ? isDead : works);
  const states = (await bystander.list(account)).map(({ state }) => state);
  t.deepEqual(states, ['active', ...Array.from({ length: rotations }, () => 'rotated')]);
}

/** Expires the mark and repeats the rotation without a response. All state is then consistent. */
async function provesItEnds(t: ExecutionContext, keyState: KeyState): Promise<void> {
  const { account, key } = keyState;
  const marks = changesKey(`user:${account}`);
  for (const change of await redis.zrange(marks, '0', '-1')) await redis.zadd(marks, Date.now() - 1_000, change);
  await provesWhoLives(t, keyState);
  await provesWhoLives(t, keyState);
  t.truthy(await redis.get(versionKey(`user:${account}`)), 'the caller can be known again');
  const [active] = await bystander.list(account);
  const again = await bystander.rotate(account, active?.key ?? '');
  t.is(again.status, 200);
  t.deepEqual(await statusesOf(key), isDead);
  const fresh = String(again.body.key);
  t.deepEqual(await statusesOf(fresh), works);
  t.is((await bystander.revoke(account, masked(fresh))).status, 200);
  t.deepEqual(await statusesOf(fresh), isDead);
}
