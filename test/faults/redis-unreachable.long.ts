import test from 'ava';
import { faultTest } from '../support/faults/fault-test.ts';
import { openBehindProxy } from '../support/faults/open-behind-proxy.ts';
import { tookNoHarm, weather } from '../support/faults/outage.ts';

const clients = 24;
const forMs = 5_000;
/** An answer takes twice as long as the outage. */
const options = { workers: 2, modelServers: { firstTokenMs: 100, tokensPerSecond: 12 } };

faultTest(
  test.serial,
  {
    id: '9a',
    done: 'Redis resets every connection (RST) for 5 s',
    promised: 'new requests: 503 within a second or two; those in flight go on when it is back, without a second run',
  },
  async (t, see) => {
    t.timeout(120_000);
    await using scene = await openBehindProxy(options);
    const { proxy } = scene;
    const weathered = await weather(t, see, {
      ...{ ...scene, clients, forMs },
      begin: () => proxy.become('reset'),
      end: () => proxy.become('pass'),
    });
    tookNoHarm(t, weathered);
  },
);

faultTest(
  test.serial,
  {
    id: '9b',
    done: 'Redis is frozen (SIGSTOP) for 5 s',
    promised: 'new requests: 503 within a second or two; those in flight go on when it is back, without a second run',
  },
  async (t, see) => {
    t.timeout(120_000);
    await using scene = await openBehindProxy(options);
    const { redis } = scene;
    const weathered = await weather(t, see, {
      ...{ ...scene, clients, forMs },
      begin: () => redis.kill('SIGSTOP'),
      end: () => redis.kill('SIGCONT'),
    });
    tookNoHarm(t, weathered);
  },
);
