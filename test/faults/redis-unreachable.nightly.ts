import test from 'ava';
import { faultTest } from '../support/faults/fault-test.ts';
import { type BehindProxy, openBehindProxy } from '../support/faults/open-behind-proxy.ts';
import { shortOutage, tookNoHarm, weather } from '../support/faults/outage.ts';

let scene: BehindProxy;

test.before(async () => {
  scene = await openBehindProxy({ workers: 2, modelServers: { firstTokenMs: 100, tokensPerSecond: 8 } });
});
test.after.always(() => scene?.[Symbol.asyncDispose]());

for (const { begin, end, forMs, ...fault } of [
  {
    id: '9a',
    done: 'Redis resets every connection (RST) for 5 s',
    promised:
      'new requests: 503 within a second or two; those in flight continue when it is back, without a second run',
    forMs: 5_000,
    begin: () => scene.proxy.become('reset'),
    end: () => scene.proxy.become('pass'),
  },
  {
    id: '9b',
    done: 'Redis is frozen (SIGSTOP) for 5 s',
    promised:
      'new requests: 503 within a second or two; those in flight continue when it is back, without a second run',
    forMs: 5_000,
    begin: () => scene.redis.kill('SIGSTOP'),
    end: () => scene.redis.kill('SIGCONT'),
  },
  {
    id: '9f',
    done: 'Redis accepts everything and answers nothing for 6 s',
    promised:
      'new requests: 503 within a second or two; those in flight continue when it is back, without a second run',
    forMs: 6_000,
    begin: () => scene.proxy.become('black hole'),
    end: () => scene.proxy.become('pass'),
  },
  {
    id: '9c',
    done: 'Redis accepts everything and answers nothing for 60 s',
    promised:
      'new requests: 503 within a second or two; those in flight end with an error or are run again, charged once',
    forMs: 60_000,
    begin: () => scene.proxy.become('black hole'),
    end: () => scene.proxy.become('pass'),
  },
]) {
  faultTest(test.serial, fault, async (t, see) => {
    t.timeout(300_000);
    const weathered = await weather(t, see, { ...scene, ...shortOutage, forMs, begin, end });
    if (forMs < 60_000) return tookNoHarm(t, weathered);
    const endings = Map.groupBy(weathered.inFlight, ({ ending }) => ending);
    see([...endings].map(([ending, { length }]) => `${length} ${ending}`).join(', '));
    t.deepEqual(
      weathered.inFlight.filter(({ ending }) => !['answered', 'interrupted', 'refused'].includes(ending)),
      [],
    );
  });
}
