import test from 'ava';
import { faultTest } from '../support/faults/fault-test.ts';
import { openBehindProxy } from '../support/faults/open-behind-proxy.ts';
import { tookNoHarm, weather } from '../support/faults/outage.ts';

const clients = 24;
const forMs = 5_000;
/** An answer takes twice as long as the outage. */
const options = { workers: 2, modelServers: { firstTokenMs: 100, tokensPerSecond: 12 } };

faultTest(
  test,
  {
    id: '8',
    done: 'Redis is killed (SIGKILL) under requests in flight, and restarted on its append-only file',
    promised: 'new requests: 503 within a second or two; those in flight go on, without a second run; nothing is lost',
  },
  async (t, see) => {
    t.timeout(120_000);
    await using scene = await openBehindProxy(options);
    const { redis } = scene;
    const weathered = await weather(t, see, {
      ...{ ...scene, clients, forMs },
      begin: () => redis.kill('SIGKILL'),
      end: () => redis.restart(),
    });
    tookNoHarm(t, weathered);
  },
);
