import type { ExecutionContext, TestFn } from 'ava';
import { Redis } from 'ioredis';
import { auditRecordListSchema } from '../../ingress/routes/audit.ts';
import type { CreatedTopUpCode } from '../../ingress/routes/top-up-codes.ts';
import { changesKey } from '../../shared/redis/keys.ts';
import { type RunningIngress, type Stack, startStack } from '../stack/stack.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { databaseUrl, type MongoServer } from '../support/mongodb/start-mongo.ts';
import { scriptDescription } from '../support/script-description.ts';
import { addressIn, startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { createTopUpClient } from '../support/top-up-client.ts';

/*
 * An ingress that redeems a code is held at an exact point by a proxy between it and Redis, and killed there: its code is claimed then. In
 * further rounds it is killed at any moment, or continues after others have done its work.
 */
const scriptOf = (name: string) => scriptDescription(`shared/account-changes/${name}.lua`);
const [mark, unmark] = [scriptOf('mark-change'), scriptOf('unmark-change')];

type Registrar = {
  test: TestFn;
  /** The database server of the store, stopped after the service. Omit it to use the embedded store. */
  mongo?: MongoServer;
  /** The number of kills at each point, and at any moment. */
  kills: { atPoints: number; atAnyMoment: number };
};

type TopUpClient = ReturnType<typeof createTopUpClient>;

let stack: Stack;
let redis: Redis;
let keys: KeyClient;
/** Two ingresses that keep running. */
let bystanders: [TopUpClient, TopUpClient];

type Point = {
  title: string;
  hold: (proxy: TcpProxy) => Promise<void>;
  /** Expected in Redis while the ingress is held at this point. */
  marks: number;
  isAdded: boolean;
};

const points: readonly Point[] = [
  { title: 'between claim and mark', hold: (proxy) => proxy.holdBefore(mark), marks: 0, isAdded: false },
  { title: 'between mark and change', hold: (proxy) => proxy.holdAfter(mark), marks: 1, isAdded: false },
  { title: 'between change and unmark', hold: (proxy) => proxy.holdBefore(unmark), marks: 1, isAdded: true },
  {
    title: 'between unmark and the note in the code',
    hold: (proxy) => proxy.holdAfter(unmark),
    marks: 0,
    isAdded: true,
  },
];

const tokens = 1_000;

/** Tests that a code gives its tokens to one account, once, wherever the ingress dies that redeems it. */
export function testTopUpsKilled({ test, mongo, kills }: Registrar): void {
  const parts = new AsyncDisposableStack();
  test.before(async () => {
    if (mongo !== undefined) parts.use(mongo);
    const storeUrl = mongo && databaseUrl(mongo.url, `top_ups_killed_${process.pid}`);
    stack = parts.use(await startStack({ ingresses: 2, databaseUrl: storeUrl }));
    redis = parts.adopt(new Redis(stack.redisUrl), (connection) => connection.disconnect());
    keys = createKeyClient(stack);
    const other = createKeyClient(stack, { url: () => stack.ingresses[1]?.url ?? '' });
    bystanders = [createTopUpClient(keys), createTopUpClient(other)];
  });
  test.after.always(() => parts.disposeAsync());

  for (const [index, point] of points.entries()) {
    test.serial(`${kills.atPoints} killed ${point.title}: the account of the claim gets the tokens once`, async (t) => {
      for (let kill = 0; kill < kills.atPoints; kill++) await killAt(t, point, `at-${index}-${kill}`);
    });
  }

  // A frozen process could hold the lock of the embedded store.
  for (const how of mongo === undefined ? (['killed'] as const) : (['killed', 'frozen'] as const)) {
    const title = `${kills.atAnyMoment} ${how} while two accounts redeem each code, at two ingresses: one gets it`;
    test.serial(title, async (t) => {
      let interrupted = 0;
      let next = stack.startIngress();
      for (let kill = 0; kill < kills.atAnyMoment; kill++) {
        const victim = await next;
        if (kill + 1 < kills.atAnyMoment) next = stack.startIngress();
        interrupted += await stopAtAnyMoment(t, victim, { how, name: `${how}-${kill}` });
      }
      t.log(`${interrupted} codes were claimed and not complete at that moment`);
      await assertAllApplied(t);
    });
  }
}

async function created(count = 1): Promise<CreatedTopUpCode[]> {
  return bystanders[0].create({ tokens, count });
}

async function killAt(t: ExecutionContext, point: Point, name: string): Promise<void> {
  await using held = await holdAt(t, point, name);
  held.ingress.process.kill('SIGKILL');
  t.is(await held.answer, 'lost');
  await assertRedeemed(t, held);
}

type Held = AsyncDisposable & {
  ingress: RunningIngress;
  proxy: TcpProxy;
  answer: Promise<number | 'lost'>;
  account: string;
  rival: string;
  created: CreatedTopUpCode;
};

async function holdAt(t: ExecutionContext, { hold, marks, isAdded }: Point, account: string): Promise<Held> {
  const proxy = await startTcpProxy(addressIn(stack.redisUrl));
  const ingress = await stack.startIngress({ REDIS_URL: `redis://127.0.0.1:${proxy.port}` });
  const client = createTopUpClient(createKeyClient(stack, { url: () => ingress.url }));
  const [code] = await created();
  if (code === undefined) throw new Error('a code was created');
  const reached = hold(proxy);
  const answer = client.redeem(account, code.code).then(
    ({ status }) => status,
    () => 'lost' as const,
  );
  await reached;
  ingress.process.kill('SIGSTOP'); // otherwise it would stop waiting for Redis and continue
  while ((await redis.zcard(changesKey(`user:${account}`))) !== marks) await nextTurn();
  const rival = `${account}-rival`;
  t.is((await bystanders[1].redeem(rival, code.code)).status, 409, 'it is claimed');
  t.is((await bystanders[0].quota(account)).body.topUp, isAdded ? tokens : 0);
  t.is((await bystanders[0].revoke(code.id)).status, 409);
  return {
    ...{ ingress, proxy, answer, account, rival, created: code },
    async [Symbol.asyncDispose]() {
      ingress.process.kill('SIGKILL');
      await ingress.process.exited;
      await proxy[Symbol.asyncDispose]();
    },
  };
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

/** Its account can repeat the code at each ingress, and has its tokens once. No other account has them. */
async function assertRedeemed(
  t: ExecutionContext,
  { account, rival, created: { id, code } }: Pick<Held, 'account' | 'rival' | 'created'>,
) {
  for (const client of bystanders) {
    t.like(await client.redeem(account, code), { status: 200, body: { topUp: tokens } });
    t.is((await client.redeem(rival, code)).status, 409);
    t.is((await client.quota(account)).body.topUp, tokens);
    t.is((await client.quota(rival)).body.topUp, 0);
  }
  t.deepEqual(await topUpsIn(account), [{ id: `code ${id}`, tokens }]);
  t.deepEqual(await topUpsIn(rival), []);
}

/** The top-ups of an account, as the audit trail has them. */
async function topUpsIn(account: string): Promise<unknown[]> {
  const bearer = await keys.token('olga', true);
  const { body } = await keys.send('GET', `/admin/audit?account=user:${account}&kind=code&limit=100`, { bearer });
  return auditRecordListSchema.parse(body).data.map(({ change }) => change.topUp);
}

/** Several times the duration of a redemption. */
const stopWithinMs = 60;
const codesAtOnce = 8;

type Stop = { how: 'killed' | 'frozen'; name: string };

/** Kills an ingress, or stops it until others have done its work. Returns how many codes were claimed and not complete at that moment. */
async function stopAtAnyMoment(t: ExecutionContext, victim: RunningIngress, { how, name }: Stop): Promise<number> {
  const client = createTopUpClient(createKeyClient(stack, { url: () => victim.url }));
  const codes = (await created(codesAtOnce)).map((code, index) => ({
    ...{ code, account: `${name}-${index}`, rival: `${name}-${index}-rival` },
  }));
  await Promise.all(codes.flatMap(({ account, rival }) => [client.quota(account), bystanders[0].quota(rival)]));
  const ofRivals: Promise<void>[] = [];
  const ofVictim = codes.map(({ code: { code }, account, rival }, index) => {
    const delayMs = Math.random() * stopWithinMs;
    ofRivals.push(redeemLater(bystanders[index % 2 === 0 ? 0 : 1], rival, { code, delayMs }));
    return redeemLater(client, account, { code, delayMs: Math.random() * stopWithinMs });
  });
  await new Promise((resolve) => setTimeout(resolve, Math.random() * stopWithinMs));
  victim.process.kill(how === 'killed' ? 'SIGKILL' : 'SIGSTOP');
  await Promise.all(ofRivals);
  const listed = await bystanders[0].list('?state=redeemed&limit=100');
  const open = listed.filter((one) => one.applied_at === null && codes.some(({ code }) => code.id === one.id));
  const redeemed = await Promise.all(codes.map((one) => redeemAtBoth(t, one)));
  if (how === 'frozen') victim.process.kill('SIGCONT');
  await Promise.all(ofVictim);
  for (const one of redeemed) await assertRedeemed(t, one);
  victim.process.kill('SIGKILL');
  await victim.process.exited;
  return open.length;
}

type Pair = { code: CreatedTopUpCode; account: string; rival: string };

/** Both accounts redeem the code, at an ingress each. Returns which of them has got it. */
async function redeemAtBoth(t: ExecutionContext, { code, account, rival }: Pair) {
  const [one, other] = await Promise.all([
    bystanders[0].redeem(account, code.code),
    bystanders[1].redeem(rival, code.code),
  ]);
  t.deepEqual([one.status, other.status].toSorted(), [200, 409]);
  const [winner, loser] = one.status === 200 ? [account, rival] : [rival, account];
  const got = { account: winner, rival: loser, created: code };
  await assertRedeemed(t, got);
  return got;
}

type Redemption = { code: string; delayMs: number };

/** Redeems a code once, after this time; the answer may be lost. */
async function redeemLater(client: TopUpClient, account: string, { code, delayMs }: Redemption): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, delayMs));
  await client.redeem(account, code).catch(() => {});
}

async function assertAllApplied(t: ExecutionContext): Promise<void> {
  const redeemed = await bystanders[0].list('?state=redeemed&limit=100');
  t.true(redeemed.length > 0);
  t.true(redeemed.every(({ applied_at }) => applied_at !== null));
}
