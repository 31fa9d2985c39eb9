import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { Agent } from 'undici';
import { startStack } from '../stack/stack.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { notPromotedMs, openRedisPair } from '../support/faults/open-redis-pair.ts';
import { seededRandom } from '../support/random.ts';
import { type AskedRequest, ask } from '../support/truth/ask.ts';
import { openWitnesses } from '../support/truth/open-witnesses.ts';
import { sendRequests } from '../support/truth/send-requests.ts';

/** Many times the replication lag on one machine. */
const behindMs = 1_000;

faultTest(
  test,
  {
    id: '13b',
    done: 'the Redis primary is killed under a continuous write load, and its replica is promoted',
    promised: 'every client gets an answer or an error; only writes of the last moment before the kill are lost',
  },
  async (t, see) => {
    t.timeout(180_000);
    const { parts, url, failOver, promote } = await openRedisPair(t);
    const stack = parts.use(
      await startStack({
        ...{ redisUrl: url, ingresses: 2, workers: 2, timeouts: { queue_ms: 5_000, request_ms: 25_000 } },
        modelServers: { firstTokenMs: 30, tokensPerSecond: 200 },
      }),
    );
    const witnesses = parts.use(await openWitnesses(stack));
    const endedAt = new Map<AskedRequest, number>();
    const sending = sendRequests({
      ...{ ingresses: stack.ingresses, keys: witnesses.keys, requests: 600, clients: 40 },
      leavingOf: () => undefined,
      random: seededRandom(13),
    });
    const noting = setInterval(() => {
      for (const one of sending.asked) if (!endedAt.has(one)) endedAt.set(one, performance.now());
    }, 20);
    await sending.reached(300);
    const killedAt = performance.now();
    await failOver();
    await sleep(notPromotedMs);
    await promote();
    await sending.done;
    clearInterval(noting);

    const agent = parts.adopt(new Agent(), (opened) => opened.destroy());
    t.is((await ask(witnesses.wish('And now?'), agent)).ending, 'answered');
    const silent = sending.asked.filter(({ ending }) => ending === 'broken' || ending === 'malformed');
    t.deepEqual(silent, [], 'every client got an answer or an error');
    const records = await witnesses.recordsOf(sending.asked);
    const answered = sending.asked.filter(({ ending }) => ending === 'answered');
    const lost = answered.filter(({ requestId = '' }) => records.get(requestId)?.outcome !== 'completed');
    const early = lost.filter((one) => {
      const at = endedAt.get(one) ?? Number.POSITIVE_INFINITY;
      return at < killedAt - behindMs || at > killedAt + behindMs;
    });
    t.deepEqual(early, [], 'losses were written in the last moment');
    const failed = sending.asked.length - answered.length;
    see(`${answered.length} of ${sending.asked.length} answered, ${failed} got a status or an error frame`);
    see(`${lost.length} answered in the last moment have no usage record: these are the losses`);
    await parts.disposeAsync();
  },
);
