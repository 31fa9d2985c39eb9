import { readFileSync } from 'node:fs';
import test, { type ExecutionContext } from 'ava';
import { Redis } from 'ioredis';
import { changesKey, versionKey } from '../../shared/redis-keys.ts';
import { type RunningIngress, type Stack, startStack } from '../stack/stack.ts';
import { type HoldingRelay, startHoldingRelay } from '../support/holding-relay.ts';
import { createKeyClient, type KeyClient, masked } from '../support/key-client.ts';

/*
 * An ingress that changes a key is stopped at an exact point by what stands between it and Redis, and killed there. Its
 * store is in its own process, so where it waits for Redis tells what it has done: marked, changed, unmarked.
 */
const scriptOf = (name: string) =>
  readFileSync(new URL(`../../ingress/revocation/${name}.lua`, import.meta.url), 'utf8');
/** A new ingress sends a script as it stands at first, from then on its hash. */
const mark = scriptOf('mark-change');
const unmark = scriptOf('unmark-change');

let stack: Stack;
let redis: Redis;
/** Two ingresses that go on, the first of which makes the other changes. */
let bystander: KeyClient;
let another: KeyClient;
const parts = new AsyncDisposableStack();

test.before(async () => {
  stack = parts.use(await startStack({ ingresses: 2 }));
  redis = parts.adopt(new Redis(stack.redisUrl), (connection) => connection.disconnect());
  bystander = createKeyClient(stack);
  another = createKeyClient(stack, { url: () => stack.ingresses[1]?.url ?? '' });
});

test.after.always(() => parts.disposeAsync());

type Victim = AsyncDisposable & { ingress: RunningIngress; relay: HoldingRelay; keys: KeyClient };

async function startVictim(): Promise<Victim> {
  const { hostname, port } = new URL(stack.redisUrl);
  const relay = await startHoldingRelay({ host: hostname, port: Number(port) });
  const ingress = await stack.startIngress({ REDIS_URL: `redis://127.0.0.1:${relay.port}` });
  return {
    ingress,
    relay,
    keys: createKeyClient(stack, { url: () => ingress.url }),
    [Symbol.asyncDispose]: async () => {
      ingress.process.kill('SIGKILL');
      await ingress.process.exited;
      await relay[Symbol.asyncDispose]();
    },
  };
}

type Point = {
  title: string;
  hold: (relay: HoldingRelay) => Promise<void>;
  /** What must be in Redis once the ingress stands at this point. */
  marks: number;
  changed: boolean;
  kills: number;
};

const points: readonly Point[] = [
  { title: 'before the mark', hold: (relay) => relay.holdBefore(mark), marks: 0, changed: false, kills: 5 },
  { title: 'between mark and store', hold: (relay) => relay.holdAfter(mark), marks: 1, changed: false, kills: 30 },
  { title: 'between store and unmark', hold: (relay) => relay.holdBefore(unmark), marks: 1, changed: true, kills: 30 },
  { title: 'between unmark and answer', hold: (relay) => relay.holdAfter(unmark), marks: 0, changed: true, kills: 5 },
];

for (const { title, hold, marks, changed, kills } of points) {
  for (const second of [false, true]) {
    const beside = second ? ', with another change to the same account in between' : '';
    test.serial(`${kills} ingresses killed ${title}${beside}: no dead key works, no live key is refused`, async (t) => {
      let next = startVictim();
      for (let kill = 0; kill < kills; kill++) {
        const account = `${title} ${second} ${kill}`.replaceAll(' ', '-');
        const key = await bystander.newKey(account);
        t.deepEqual(await statusesOf(key), works, 'all who go on know it');
        {
          await using victim = await next;
          if (kill + 1 < kills) next = startVictim();
          const standing = hold(victim.relay);
          const lost = victim.keys.rotate(account, key).catch(() => 'lost');
          await standing;
          while ((await redis.zcard(changesKey(`user:${account}`))) !== marks) await nextTurn();
          if (second) await changeBeside(t, account, kill);
          await provesWhoLives(t, { account, key, changed });
          victim.ingress.process.kill('SIGKILL');
          t.is(await lost, 'lost', 'nobody heard of this rotation');
        }
        await provesWhoLives(t, { account, key, changed });
        await provesItEnds(t, { account, key, changed });
      }
    });
  }
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

async function statusesOf(key: string): Promise<number[]> {
  const answers = await Promise.all([bystander.models(key), another.models(key), bystander.infer(key)]);
  return answers.map(({ status }) => status);
}

const works = [200, 200, 200];
const isDead = [401, 401, 401];

/** One that others feel, and one that is taken back, so that what follows is the same as without. */
async function changeBeside(t: ExecutionContext, account: string, kill: number): Promise<void> {
  const id = `user:${account}`;
  if (kill % 2 === 0) {
    t.is((await bystander.change(id, { suspended: true })).status, 200);
    t.is((await bystander.change(id, { suspended: false })).status, 200);
  } else {
    t.is((await bystander.change(id, { plan: 'pro' })).status, 200);
  }
}

type Trial = { account: string; key: string; changed: boolean };

async function provesWhoLives(t: ExecutionContext, { account, key, changed }: Trial): Promise<void> {
  const expected = changed ? isDead : works;
  t.deepEqual(await statusesOf(key), expected);
  const listed = await bystander.list(account);
  t.deepEqual(
    listed.map(({ state }) => state),
    changed ? ['active', 'rotated'] : ['active'],
  );
}

/** The mark ends as if its time had come; the rotation that nobody heard of is done again, and all is as it should be. */
async function provesItEnds(t: ExecutionContext, { account, key, changed }: Trial): Promise<void> {
  await redis.del(changesKey(`user:${account}`));
  await provesWhoLives(t, { account, key, changed });
  const [active] = await bystander.list(account);
  const again = await bystander.rotate(account, active?.key ?? '');
  t.is(again.status, 200);
  t.deepEqual(await statusesOf(key), isDead);
  const fresh = String(again.body.key);
  t.deepEqual(await statusesOf(fresh), works);
  t.deepEqual(await statusesOf(fresh), works);
  t.truthy(await redis.get(versionKey(`user:${account}`)), 'the caller can be known again');
  t.is((await bystander.revoke(account, masked(fresh))).status, 200);
  t.deepEqual(await statusesOf(fresh), isDead);
}
