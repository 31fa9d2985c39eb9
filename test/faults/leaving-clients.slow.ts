import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { Agent } from 'undici';
import { replyStreamKey } from '../../shared/redis/keys.ts';
import type { Call } from '../stack/model-server.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { awaitMetric } from '../support/await-metric.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { type Random, seededRandom } from '../support/random.ts';
import { ask, questionOf } from '../support/truth/ask.ts';
import type { Evidence } from '../support/truth/contradictions.ts';
import { openWitnesses } from '../support/truth/open-witnesses.ts';
import { sendRequests } from '../support/truth/send-requests.ts';
import { type Gone, goneIn } from '../support/truth/wrong-leavings.ts';

faultTest(
  test.serial,
  {
    id: '7a',
    done: 'clients disconnect at any moment, in the queue, before and after the first token',
    promised: 'each call ends within a second of the ingress noticing, and is charged once for its output so far',
  },
  async (t, see) => {
    t.timeout(120_000);
    const seed = Number(process.env.LEAVING_SEED ?? Math.floor(Math.random() * 2 ** 31));
    see(`LEAVING_SEED=${seed}`);
    await using stack = await startStack({
      ...{ ingresses: 2, workers: 2, env: { CONCURRENCY: '30' } },
      modelServers: { firstTokenMs: 300, tokensPerSecond: 25 },
    });
    await using witnesses = await openWitnesses(stack);
    const random = seededRandom(seed);
    using leaving = leaveAtRandom(stack, random);
    const sending = sendRequests({
      ...{ ingresses: stack.ingresses, keys: witnesses.keys, requests: 240, clients: 240 },
      ...{ leavingOf: leaving.leavingOf, random },
    });
    await sending.done;

    const evidence = await witnesses.agreeOn(t, sending.asked);
    const leavings = goneIn(evidence);
    const moments = Map.groupBy(leavings, (left) => momentOf(left, evidence));
    see([...moments].map(([moment, { length }]) => `${length} ${moment}`).join(', '));
    for (const moment of ['in the queue', 'before the first token', 'in the middle'])
      t.true(moments.has(moment), moment);
    t.true(leavings.length > 120);
    const others = evidence.asked.filter(({ ending }) => ending !== 'left' && ending !== 'answered');
    const refused = others.filter((one) => one.ending === 'refused' && [400, 503].includes(one.status));
    t.deepEqual(others, refused, 'invalid requests, and requests beyond the capacity of two busy cores');
    areEnded(t, evidence);
  },
);

/** Half of the clients leave by a timer, mostly in the queue. Nearly all others leave when their call has reached a number of tokens. */
function leaveAtRandom({ modelServers }: Stack, random: Random) {
  const waiting = new Map<string, { tokens: number; leaving: AbortController }>();
  const look = () => {
    for (const call of modelServers.flatMap((server) => server.calls())) {
      const { state, completionTokens } = call;
      const client = state === 'running' ? waiting.get(questionOf(call) ?? '') : undefined;
      if (client !== undefined && completionTokens >= client.tokens) client.leaving.abort();
    }
  };
  const looking = setInterval(look, 20);
  return {
    leavingOf(question: string): AbortSignal | undefined {
      const kind = random();
      if (kind < 0.5) return AbortSignal.timeout(Math.round(random.between(0, 4_000)));
      if (kind > 0.95) return undefined;
      const leaving = new AbortController();
      // Negative values: before the first token as well.
      waiting.set(question, { tokens: random.between(-15, 60), leaving });
      return leaving.signal;
    },
    [Symbol.dispose]: () => clearInterval(looking),
  };
}

function callsOf({ requestId }: Gone, { calls }: Evidence): Call[] {
  return requestId === undefined ? [] : calls.filter((call) => call.requestId === requestId);
}

function momentOf(left: Gone, evidence: Evidence): string {
  const calls = callsOf(left, evidence);
  if (calls.length === 0) return 'in the queue';
  if (calls.some(({ state }) => state === 'completed')) return 'at the end';
  return calls.some(({ completionTokens }) => completionTokens > 0) ? 'in the middle' : 'before the first token';
}

/** Most calls of clients that left are aborted. On a busy machine a few reach their end before. */
function areEnded(t: ExecutionContext, evidence: Evidence): void {
  const left = goneIn(evidence).flatMap((gone) => (gone.ending === 'left' ? [gone] : []));
  const inFlight = left.flatMap((gone) =>
    callsOf(gone, evidence).flatMap(({ state, endedAt = Number.POSITIVE_INFINITY }) =>
      endedAt > gone.at ? [{ state, tookMs: endedAt - gone.at }] : [],
    ),
  );
  const ends = inFlight.map(({ tookMs }) => tookMs).sort((one, other) => one - other);
  const share = (part: number) => ends[Math.floor((ends.length - 1) * part)] ?? Number.POSITIVE_INFINITY;
  t.log(`${ends.length} calls in flight ended after ${share(0.5)} ms (median), ${share(1)} ms (last)`);
  t.true(ends.length > 20);
  t.true(inFlight.every(({ state }) => state !== 'running'));
  const aborted = inFlight.filter(({ state }) => state === 'aborted').length;
  t.true(aborted > ends.length / 2, `${aborted} of ${ends.length} were aborted`);
}

const depthIs = (jobs: number) =>
  new RegExp(`^svc_queue_depth\\{pool="default",model="small-chat",lane="interactive"\\} ${jobs}$`, 'm');

faultTest(
  test.serial,
  {
    id: '7b',
    done: 'a client disconnects while its request waits for a backend at capacity',
    promised: 'nothing is charged, and no backend is called',
  },
  async (t) => {
    t.timeout(60_000);
    const one = { requests_at_once: 1 };
    await using stack = await startStack({ backends: { 'onprem-a': one, 'onprem-b': one, cloud: one } });
    await using witnesses = await openWitnesses(stack);
    const { wish } = witnesses;
    const agent = new Agent();
    t.teardown(() => agent.destroy());
    for (const server of stack.modelServers) server.fail({ untilHealed: true });
    const holding = stack.modelServers.map((_, index) => ask(wish(`Holding ${index}?`), agent));
    for (const server of stack.modelServers) await server.waitForCall(() => true);

    const leaving = new AbortController();
    const waiting = [true, false].map((stream) =>
      ask({ ...wish(`Waiting, ${stream}?`), stream, leaving: leaving.signal }, agent),
    );
    const [ingress] = stack.ingresses;
    if (ingress === undefined) return t.fail();
    await awaitMetric(ingress, depthIs(2));
    leaving.abort();
    const left = await Promise.all(waiting);
    t.deepEqual(
      left.map(({ ending }) => ending),
      ['left', 'left'],
    );
    await awaitMetric(ingress, depthIs(0));
    t.is(stack.modelServers.flatMap((server) => server.calls()).filter(({ state }) => state === 'running').length, 3);
    const after = ask(wish('And now?'), agent);
    for (const server of stack.modelServers) server.heal();

    const asked = [...left, ...(await Promise.all([...holding, after]))];
    t.deepEqual(
      asked.slice(2).map(({ ending }) => ending),
      Array(4).fill('answered'),
    );
    const evidence = await witnesses.agreeOn(t, asked);
    t.is(evidence.calls.length, 4);
    t.is(evidence.records.size, 4, 'a request that never left the queue has no record');
  },
);

faultTest(
  test.serial,
  {
    id: '5',
    done: 'an ingress is killed (SIGKILL) while its clients wait',
    promised: 'its calls are cancelled, each is settled once; clients of others are answered',
  },
  async (t, see) => {
    t.timeout(90_000);
    await using stack = await startStack({ workers: 2, modelServers: { firstTokenMs: 100, tokensPerSecond: 25 } });
    await using witnesses = await openWitnesses(stack);
    const { redis, wish } = witnesses;
    const agent = new Agent();
    t.teardown(() => agent.destroy());
    const before = await redis.keys(replyStreamKey('*'));
    const doomed = await stack.startIngress();
    const streams = (await redis.keys(replyStreamKey('*'))).filter((key) => !before.includes(key));
    t.is(streams.length, 1);

    // About as many seconds of text as repeats. Workers check every five seconds whether a stream of replies is still there.
    const asking = Array.from({ length: 12 }, (_, index) => {
      const isDoomed = index < 10;
      const url = isDoomed ? doomed.url : (stack.ingresses[0]?.url ?? '');
      return ask({ ...wish(`Question ${index}, repeat ${isDoomed ? 40 : 20}?`), url, stream: index % 2 === 0 }, agent);
    });
    const calls = () => stack.modelServers.flatMap((server) => server.calls());
    while (calls().filter(({ completionTokens }) => completionTokens > 10).length < 12) await sleep(20);
    doomed.process.kill('SIGKILL');
    await doomed.process.exited;
    stack.ingresses.splice(stack.ingresses.indexOf(doomed), 1);
    // It would expire within a minute.
    await redis.del(...streams);
    const goneAt = Date.now();
    while (calls().filter(({ state }) => state === 'running').length > 2) await sleep(20);
    see(`all calls had ended ${Date.now() - goneAt} ms after the reply stream`);

    const asked = await Promise.all(asking);
    t.deepEqual(
      asked.map(({ ending }) => ending),
      [...Array(10).fill('broken'), 'answered', 'answered'],
    );
    const evidence = await witnesses.agreeOn(t, asked);
    t.is(evidence.calls.length, 12);
    t.is(evidence.records.size, 12);
    const outcomes = [...evidence.records.values()].map(({ outcome }) => outcome).sort();
    t.deepEqual(outcomes, [...Array(10).fill('cancelled'), 'completed', 'completed']);
  },
);
