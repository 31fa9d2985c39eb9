import test from 'ava';
import { faultTest } from '../support/faults/fault-test.ts';
import { openBehindProxy } from '../support/faults/open-behind-proxy.ts';
import { tookNoHarm, weather } from '../support/faults/outage.ts';

const options = { workers: 2, modelServers: { firstTokenMs: 100, tokensPerSecond: 8 } };

faultTest(
  test.serial,
  {
    id: '9f',
    done: 'Redis accepts everything and answers nothing for 6 s',
    promised:
      'new requests: 503 within a second or two; those in flight continue when it is back, without a second run',
  },
  async (t, see) => {
    t.timeout(180_000);
    await using scene = await openBehindProxy(options);
    const { proxy } = scene;
    const weathered = await weather(t, see, {
      ...{ ...scene, clients: 24, forMs: 6_000 },
      begin: () => proxy.become('black hole'),
      end: () => proxy.become('pass'),
    });
    tookNoHarm(t, weathered);
  },
);

faultTest(
  test.serial,
  {
    id: '9c',
    done: 'Redis accepts everything and answers nothing for 60 s',
    promised:
      'new requests: 503 within a second or two; those in flight end with an error or are run again, charged once',
  },
  async (t, see) => {
    t.timeout(300_000);
    await using scene = await openBehindProxy(options);
    const { proxy } = scene;
    const { inFlight } = await weather(t, see, {
      ...{ ...scene, clients: 24, forMs: 60_000 },
      begin: () => proxy.become('black hole'),
      end: () => proxy.become('pass'),
    });
    const endings = Map.groupBy(inFlight, ({ ending }) => ending);
    see([...endings].map(([ending, { length }]) => `${length} ${ending}`).join(', '));
    t.deepEqual(
      inFlight.filter(({ ending }) => !['answered', 'interrupted', 'refused'].includes(ending)),
      [],
    );
  },
);
