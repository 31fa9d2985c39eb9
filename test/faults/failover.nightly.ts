import test from 'ava';
import { startStack } from '../stack/stack.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { notPromotedMs, openRedisPair } from '../support/faults/open-redis-pair.ts';
import { weather } from '../support/faults/outage.ts';
import { openWitnesses } from '../support/truth/open-witnesses.ts';

faultTest(
  test,
  {
    id: '13a',
    done: 'the Redis primary is killed with requests in flight; its replica refuses writes for 3 s, and is promoted',
    promised:
      'new requests: 503, never a hang; in flight: complete responses arrive, a stream whose text was refused ends with an error frame; none is run again',
  },
  async (t, see) => {
    t.timeout(120_000);
    const { parts, url, failOver, promote } = await openRedisPair(t);
    const stack = parts.use(
      await startStack({ redisUrl: url, workers: 2, modelServers: { firstTokenMs: 100, tokensPerSecond: 12 } }),
    );
    const witnesses = parts.use(await openWitnesses(stack));
    const weathered = await weather(t, see, {
      ...{ stack, witnesses, clients: 24, forMs: notPromotedMs },
      begin: failOver,
      end: promote,
    });
    const { inFlight, evidence } = weathered;
    const whole = inFlight.filter(({ stream }) => !stream);
    t.deepEqual(new Set(whole.map(({ ending }) => ending)), new Set(['answered']));
    const streamed = inFlight.filter(({ stream }) => stream);
    t.true(streamed.every(({ ending }) => ending === 'answered' || ending === 'interrupted'));
    t.true(
      [...evidence.records.values()].every(({ runs }) => runs === 1),
      'none is run again',
    );
    const answered = whole.filter(({ ending }) => ending === 'answered').length;
    const interrupted = streamed.filter(({ ending }) => ending === 'interrupted').length;
    see(
      `${answered} of ${whole.length} complete responses; ${interrupted} of ${streamed.length} streams ended with an error frame`,
    );
    await parts.disposeAsync();
  },
);
