import test from 'ava';
import { faultTest } from '../support/faults/fault-test.ts';
import { openBehindProxy } from '../support/faults/open-behind-proxy.ts';
import { longAnswers, shortOutage, tookNoHarm, weather } from '../support/faults/outage.ts';

faultTest(
  test,
  {
    id: '8',
    done: 'Redis is killed (SIGKILL) with requests in flight, and restarted on its append-only file',
    promised:
      'new requests: 503 within a second or two; those in flight continue, without a second run; nothing is lost',
  },
  async (t, see) => {
    t.timeout(120_000);
    await using scene = await openBehindProxy(longAnswers);
    const { redis } = scene;
    const weathered = await weather(t, see, {
      ...{ ...scene, ...shortOutage },
      begin: () => redis.kill('SIGKILL'),
      end: () => redis.restart(),
    });
    tookNoHarm(t, weathered);
  },
);
