import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import test, { type ExecutionContext } from 'ava';
import type { ModelServer } from '../stack/model-server.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { chat } from '../support/chat.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { startLoad, unlimitedKey, until } from '../support/load.ts';
import { openWitnesses } from '../support/truth/open-witnesses.ts';

const onPrem = ['onprem-a', 'onprem-b'];
const models = {
  pair: { tier: 'standard', pool: 'default', backends: onPrem },
  other: { tier: 'standard', pool: 'default', backends: onPrem },
};

async function breakersOf(stack: Stack, model: string): Promise<Record<string, string>> {
  const answer = await fetch(`${stack.workers[0]?.operationsUrl}/readyz`);
  const { breakers } = (await answer.json()) as { breakers: { model: string; backend: string; breaker: string }[] };
  return Object.fromEntries(
    breakers.filter((each) => each.model === model).map((each) => [each.backend, each.breaker]),
  );
}

async function untilBreaker(stack: Stack, model: string, backend: string, state: string): Promise<void> {
  while ((await breakersOf(stack, model))[backend] !== state) await sleep(20);
}

const callsOf = (server: ModelServer, model: string) => server.calls().filter((call) => call.model === model);

faultTest(
  test.serial,
  {
    id: '17e',
    done: 'one of two replicas resets every connection under 64 clients',
    promised:
      'no client sees an error; the breaker opens, one probe every five seconds checks the replica, and it is used again',
  },
  async (t, see) => {
    t.timeout(120_000);
    await using stack = await startStack({ models, modelServers: { firstTokenMs: 900, tokensPerSecond: 2_000 } });
    await using witnesses = await openWitnesses(stack);
    const key = await unlimitedKey(stack);
    const [dying, living] = stack.modelServers;
    const url = () => stack.ingresses[0]?.url ?? '';
    const load = startLoad({ url, key, name: 'load', clients: 64, model: 'pair' });
    await until(() => callsOf(dying, 'pair').length > 50 && callsOf(living, 'pair').length > 50);

    dying.fail({ resetBeforeHeaders: true });
    await untilBreaker(stack, 'pair', 'onprem-a', 'open');
    const openedAt = performance.now();
    const callsThen = callsOf(dying, 'pair').length;
    const answeredThen = load.endings.length;
    await until(() => load.endings.length > answeredThen + 300 && performance.now() - openedAt > 8_000);
    const probes = callsOf(dying, 'pair').length - callsThen;
    // 64 calls can have been in flight when it opened. From then on it is about one every five seconds.
    t.true(
      probes >= 1 && probes <= 64 + (performance.now() - openedAt) / 4_000 + 1,
      `${probes} calls while it was open`,
    );
    const calm = { calls: callsOf(dying, 'pair').length, at: performance.now() };
    const answeredAtRest = load.endings.length;
    await until(() => load.endings.length > answeredAtRest + 200);
    const calls = callsOf(dying, 'pair').length - calm.calls;
    t.true(calls <= 1 + (performance.now() - calm.at) / 4_000, 'hundreds of requests skipped it, except for a probe');

    dying.heal();
    await untilBreaker(stack, 'pair', 'onprem-a', 'closed');
    const before = { dying: callsOf(dying, 'pair').length, living: callsOf(living, 'pair').length };
    await until(() => callsOf(dying, 'pair').length > before.dying + 100);
    const share = callsOf(living, 'pair').length - before.living;
    t.true(share > 20 && share < 500, `while it took 100 calls the other took ${share}`);

    const endings = await load.stop();
    t.deepEqual(
      endings.filter(({ kind }) => kind !== 'answered'),
      [],
    );
    see(`${endings.length} requests answered, ${probes} calls to the failed replica while its breaker was open`);
    const { records, contradictions } = await witnesses.agreeOn(t, []);
    see(`${records.size} records, ${contradictions.length} contradictions`);
  },
);

type Refusal = { status: number; body: { code?: string; tier?: string; attempted?: string[] }; ms: number };

async function refusal(stack: Stack, key: string, stream: boolean): Promise<Refusal> {
  const startedAt = performance.now();
  const options = { url: stack.ingresses[0]?.url ?? '', key, question: 'Hello?', stream, model: 'small-chat' };
  const response = await chat(options);
  const body = (await response.json()) as Refusal['body']; // checked by the test
  return { status: response.status, body, ms: performance.now() - startedAt };
}

/** Brings all backends down with `down`. The first request gets its error long before its deadline, and later ones without a call. */
async function allDown(t: ExecutionContext, down: (stack: Stack) => Promise<void>) {
  await using stack = await startStack({ timeouts: { connect_ms: 500, first_token_ms: 500, idle_ms: 500 } });
  const key = await unlimitedKey(stack);
  await down(stack);
  const attempted = ['onprem-a', 'onprem-b', 'cloud'];
  const expected = { status: 503, body: { code: 'UPSTREAMS_EXHAUSTED', tier: 'guest', attempted } };

  const first = await refusal(stack, key, false);
  t.like(first, { status: 503, body: { code: 'UPSTREAMS_EXHAUSTED', tier: 'guest' } });
  t.deepEqual(first.body.attempted?.toSorted(), attempted.toSorted());

  const all = async () => Object.values(await breakersOf(stack, 'small-chat'));
  for (let requests = 0; requests < 10 && !(await all()).every((state) => state === 'open'); requests++) {
    await refusal(stack, key, requests % 2 === 0);
  }
  const calls = () => stack.modelServers.map((server) => server.calls().length);
  const later: Refusal[] = [];
  let before: number[];
  // On a busy machine, a breaker may probe meanwhile. No other call may be made.
  do {
    while (!(await all()).every((state) => state === 'open')) await refusal(stack, key, false);
    before = calls();
    later.splice(0);
    for (const stream of [false, true, false]) later.push(await refusal(stack, key, stream));
  } while (!isDeepStrictEqual(calls(), before));
  for (const { status, body } of later) t.like({ status, body }, expected);
  const median = later.map(({ ms }) => ms).toSorted((one, other) => one - other)[1] ?? Number.NaN;
  t.log(`the first response took ${first.ms.toFixed(0)} ms, later ones ${median.toFixed(1)} ms (median of 3)`);
}

faultTest(
  test.serial,
  {
    id: '18a',
    done: 'all backends of a model refuse connections',
    promised:
      '503 UPSTREAMS_EXHAUSTED naming the backends that were tried; immediate, without a call, when their breakers are open',
  },
  async (t) => {
    const down = async ({ modelServers }: Stack) => {
      for (const server of modelServers) await server[Symbol.asyncDispose]();
    };
    await allDown(t, down);
  },
);

faultTest(
  test.serial,
  {
    id: '18b',
    done: 'all backends of a model hang',
    promised: '503 UPSTREAMS_EXHAUSTED after their timeouts; immediate, without a call, when their breakers are open',
  },
  async (t) => {
    const down = async ({ modelServers }: Stack) => {
      for (const server of modelServers) server.fail({ hang: true });
    };
    await allDown(t, down);
  },
);

faultTest(
  test.serial,
  {
    id: '18c',
    done: 'all backends of one model hang under 64 clients',
    promised: 'other models of its pool are unaffected',
  },
  async (t, see) => {
    t.timeout(120_000);
    await using stack = await startStack({
      models,
      timeouts: { first_token_ms: 4_000, queue_ms: 4_000 },
      modelServers: { firstTokenMs: 150, tokensPerSecond: 2_000 },
      env: { CONCURRENCY: '16' },
    });
    const key = await unlimitedKey(stack);
    const url = () => stack.ingresses[0]?.url ?? '';
    const other = startLoad({ url, key, name: 'other', clients: 8, model: 'other' });
    await until(() => other.endings.length > 50);

    for (const server of stack.modelServers.slice(0, 2)) server.fail({ hang: true }, 'pair');
    const broken = startLoad({ url, key, name: 'broken', clients: 64, model: 'pair' });
    await untilBreaker(stack, 'pair', 'onprem-a', 'open');
    await untilBreaker(stack, 'pair', 'onprem-b', 'open');
    const [answered, refused] = [other.endings.length, broken.endings.length];
    await until(() => other.endings.length > answered + 200 && broken.endings.length > refused + 300);

    t.true((await broken.stop()).every(({ kind }) => kind === 'refused'));
    t.deepEqual(
      (await other.stop()).filter(({ kind }) => kind !== 'answered'),
      [],
    );
    t.deepEqual(await breakersOf(stack, 'other'), { 'onprem-a': 'closed', 'onprem-b': 'closed' });
    see(
      `${other.endings.length} of ${other.endings.length} of the other model answered; ${broken.endings.length} got 503`,
    );
  },
);
