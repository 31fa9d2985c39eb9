import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { startIdentityProvider } from '../stack/identity-provider.ts';
import { startStack } from '../stack/stack.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { createKeyClient } from '../support/key-client.ts';
import { createMongoHome } from '../support/mongodb/mongo-home.ts';
import { startMongo, urlThrough } from '../support/mongodb/start-mongo.ts';
import { seededRandom } from '../support/random.ts';

const mongo = await startMongo();
test.after.always(async () => {
  if ('url' in mongo) await mongo[Symbol.asyncDispose]();
});

const parts = ['Redis', 'the store', 'the issuer', 'the ingress', 'a worker'] as const;
type Part = (typeof parts)[number];
/** Dependencies first, or last; and some orders between. */
const extremes: Part[][] = [[...parts], [...parts].toReversed()];
const sampled = 6;
/** Long enough for a process to find that a dependency is missing. */
const betweenMs = 1_500;
const wellWithinMs = 60_000;

faultTest(
  test,
  {
    id: '24c',
    done: 'everything is stopped, and Redis, store, issuer, ingress and worker are started in eight orders',
    promised: 'processes wait for their dependencies, and the service works without a manual step',
    notRun: 'reason' in mongo ? mongo.reason : undefined,
  },
  async (t, see) => {
    t.timeout(600_000);
    const seed = Number(process.env.ORDERS_SEED ?? Math.floor(Math.random() * 2 ** 31));
    see(`ORDERS_SEED=${seed}`);
    const random = seededRandom(seed);
    await using home = await createMongoHome(mongo);
    await using store = await home.startProxy('pass');
    await using stack = await startStack({
      ...{ ingresses: 0, workers: 0 },
      databaseUrl: urlThrough(store.port, home.url),
    });
    const { redis, directory, baseUrl } = stack;
    if (redis === undefined) throw new Error('this stack has its own Redis');
    let issuer = stack.identity;
    const shuffled = () => [...parts].map((part) => ({ part, at: random() })).sort((one, other) => one.at - other.at);
    const orders = [...extremes, ...Array.from({ length: sampled }, () => shuffled().map(({ part }) => part))];
    const tookMs: number[] = [];

    for (const [index, order] of orders.entries()) {
      await Promise.all(stack.started().map((child) => child.stop()));
      stack.ingresses.length = 0;
      stack.workers.length = 0;
      await redis.stop();
      store.become('refuse');
      await issuer[Symbol.asyncDispose]();

      const starting: Promise<unknown>[] = [];
      const start: Record<Part, () => Promise<unknown>> = {
        Redis: () => redis.restart(),
        'the store': async () => store.become('pass'),
        'the issuer': async () => {
          const dataDirectory = `${directory}/identity`;
          issuer = await startIdentityProvider({ audience: baseUrl, port: stack.identity.port, dataDirectory });
        },
        'the ingress': async () => void starting.push(stack.startIngress()),
        'a worker': async () => void starting.push(stack.startWorker()),
      };
      for (const part of order) {
        await start[part]();
        await sleep(betweenMs);
      }
      const allAt = performance.now();
      await Promise.all(starting);
      const account = `account-${index}`;
      // From the restarted issuer, not from the first one.
      const token = await issuer.token(account);
      const client = createKeyClient(stack);
      const isWell = async () => {
        const { status, body } = await client.send('POST', '/v1/keys/developer', { bearer: token, body: {} });
        if (status !== 200) return false;
        // After a lost response a repeated mint would return the key masked. No response is lost here.
        while (performance.now() - allAt < wellWithinMs) {
          if ((await client.infer(String(body.key))).status === 200) return true;
          await sleep(100);
        }
        return false;
      };
      while (!(await isWell())) {
        if (performance.now() - allAt > wellWithinMs) break;
        await sleep(100);
      }
      t.true(performance.now() - allAt < wellWithinMs, `not working after ${order.join(', ')}`);
      tookMs.push(Math.round(performance.now() - allAt));
    }
    await issuer[Symbol.asyncDispose]();
    see(
      `${orders.length} of ${orders.length} orders; working at most ${Math.max(...tookMs)} ms after the last part was started`,
    );
  },
);
