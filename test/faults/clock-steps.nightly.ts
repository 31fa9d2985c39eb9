import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import test from 'ava';
import { Agent } from 'undici';
import { oneBackend } from '../stack/plan.ts';
import { startStack } from '../stack/stack.ts';
import { chat } from '../support/chat.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { createKeyClient } from '../support/key-client.ts';
import { type AskedRequest, ask } from '../support/truth/ask.ts';
import { openWitnesses } from '../support/truth/open-witnesses.ts';

const tenMinutesMs = 600_000;
const perMinute = 4;
/** The wait for a request that is never answered; also far longer than any other request takes on a slow machine. */
const requestMs = 12_000;

const preload = fileURLToPath(new URL('../support/shift-clock.ts', import.meta.url));
/** Settings of a process whose clock is off by `shiftMs`, and steps by `stepMs` on a signal. */
const clock = (shiftMs: number, stepMs: number) => ({
  NODE_OPTIONS: `--import=${preload}`,
  CLOCK_SHIFT_MS: String(shiftMs),
  CLOCK_STEP_MS: String(stepMs),
});

faultTest(
  test,
  {
    id: '20',
    done: 'the clocks of two ingresses are ten minutes ahead and behind, that of a worker steps by twenty; all step back during requests',
    promised:
      'limits use the clock of Redis; deadlines and waits keep their length; each request is counted once, at its time',
  },
  async (t, see) => {
    t.timeout(120_000);
    await using stack = await startStack({
      ...{ ingresses: 0, workers: 0, models: oneBackend, timeouts: { request_ms: requestMs, queue_ms: requestMs } },
      plans: { few: { requests_per_minute: perMinute, model_tiers: ['guest', 'standard'] } },
    });
    const processes = await Promise.all([
      stack.startIngress(clock(tenMinutesMs, -2 * tenMinutesMs)),
      stack.startIngress(clock(-tenMinutesMs, 2 * tenMinutesMs)),
      stack.startWorker(clock(tenMinutesMs, -2 * tenMinutesMs)),
      stack.startIngress(), // signs people in: the times of a token are compared with the clock of the process that reads it
    ]);
    const shifted = processes.slice(0, 3);
    const urls = processes.slice(0, 2).map((one) => ('url' in one ? one.url : ''));
    // Witnesses use the first ingress of the list.
    stack.ingresses.sort((one, other) => urls.indexOf(one.url) - urls.indexOf(other.url));
    await using witnesses = await openWitnesses(stack);
    const agent = new Agent();
    t.teardown(() => agent.destroy());
    const step = () => {
      for (const { process } of shifted) process.kill('SIGUSR2');
    };
    const [server] = stack.modelServers;

    // Requests in flight and in the queue while every clock steps.
    const startedAt = Date.now();
    server.fail({ latencyMs: 1_000 });
    const asking = Array.from({ length: 24 }, (_, index) => {
      const wish = { ...witnesses.wish(`What time is it, ${index}?`), url: urls[index % 2] ?? '' };
      const stream = index % 4 < 2;
      return ask({ ...wish, stream, includeUsage: stream }, agent);
    });
    while (server.calls().length < 12) await sleep(10);
    step();
    const asked: AskedRequest[] = await Promise.all(asking);
    server.heal();
    for (let index = 0; index < 8; index += 1) {
      asked.push(await ask({ ...witnesses.wish(`And now, ${index}?`), url: urls[index % 2] ?? '' }, agent));
      if (index === 4) step(); // the clock that is ahead steps forward, the other back
    }
    t.deepEqual(
      asked.filter(({ ending }) => ending !== 'answered'),
      [],
      'no request is refused or late',
    );
    see(`${asked.length} of ${asked.length} answered while each clock stepped by 20 minutes, twice`);

    // A deadline keeps its length, in whichever direction the clocks step meanwhile.
    server.fail({ hang: true });
    const late = urls.map(async (url, index) => {
      const askedAt = performance.now();
      asked.push(await ask({ ...witnesses.wish(`Never, ${index}?`), url }, agent));
      return performance.now() - askedAt;
    });
    await sleep(1_000);
    step();
    const tookMs = (await Promise.all(late)).map(Math.round);
    server.heal();
    for (const one of asked.slice(-2)) t.like(one, { ending: 'refused', status: 504, code: 'DEADLINE_EXCEEDED' });
    for (const ms of tookMs) t.true(ms > requestMs - 100, `${ms} ms`); // a later one would be 20 minutes late
    see(`504 after ${tookMs.join(' and ')} ms, of ${requestMs}`);

    const { records, contradictions } = await witnesses.agreeOn(t, asked);
    const endedAt = Date.now();
    for (const { admittedAt, settledAt, queueWaitMs, durationMs } of records.values()) {
      const [from, to] = [admittedAt.getTime(), settledAt.getTime()];
      t.true(from >= startedAt - 1_000 && to >= from && to <= endedAt + 1_000);
      t.true((queueWaitMs ?? 0) < 600_000 && (durationMs ?? 0) < 600_000);
    }
    see(`${records.size} records, ${contradictions.length} contradictions, each admitted and settled at its time`);

    // Limits: one account at both ingresses, and the clocks step between.
    const keys = createKeyClient(stack, { url: () => processes[3].url });
    const key = await keys.newKey('few');
    await keys.change('user:few', { plan: 'few' });
    const statuses: number[] = [];
    let retryAfterMs = 0;
    for (let index = 0; index < 4 * perMinute; index += 1) {
      if (index % perMinute === perMinute / 2) step();
      const response = await chat({ url: urls[index % 2] ?? '', key, question: 'One more?' });
      statuses.push(response.status);
      retryAfterMs = Number(response.headers.get('retry-after-ms') ?? 0);
      await response.body?.cancel();
    }
    const admitted = statuses.filter((status) => status === 200).length;
    t.is(admitted, perMinute);
    t.deepEqual(statuses.slice(perMinute), Array(3 * perMinute).fill(429));
    t.true(retryAfterMs > 20_000 && retryAfterMs <= 60_000, `${retryAfterMs}`);
    see(
      `${admitted} of ${statuses.length} admitted by a limit of ${perMinute} a minute, with an advertised wait of ${retryAfterMs} ms`,
    );
  },
);
