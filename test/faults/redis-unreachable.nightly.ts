import test from 'ava';
import { faultTest } from '../support/faults/fault-test.ts';
import { openBehindProxy } from '../support/faults/open-behind-proxy.ts';
import { longAnswers, shortOutage, tookNoHarm, weather } from '../support/faults/outage.ts';

faultTest(
  test.serial,
  {
    id: '9a',
    done: 'Redis resets every connection (RST) for 5 s',
    promised:
      'new requests: 503 within a second or two; those in flight continue when it is back, without a second run',
  },
  async (t, see) => {
    t.timeout(120_000);
    await using scene = await openBehindProxy(longAnswers);
    const { proxy } = scene;
    const weathered = await weather(t, see, {
      ...{ ...scene, ...shortOutage },
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
    promised:
      'new requests: 503 within a second or two; those in flight continue when it is back, without a second run',
  },
  async (t, see) => {
    t.timeout(120_000);
    await using scene = await openBehindProxy(longAnswers);
    const { redis } = scene;
    const weathered = await weather(t, see, {
      ...{ ...scene, ...shortOutage },
      begin: () => redis.kill('SIGSTOP'),
      end: () => redis.kill('SIGCONT'),
    });
    tookNoHarm(t, weathered);
  },
);
