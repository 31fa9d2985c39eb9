import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import test, { type ExecutionContext } from 'ava';
import { freePort } from '../stack/free-port.ts';
import type { ModelServer } from '../stack/model-server.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { chat, streamEvents } from '../support/chat.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { type RequestEnd, startLoad, unlimitedKey, until } from '../support/load.ts';
import { createPlanEditor, type EditedPlan } from '../support/plan-file-editor.ts';
import { openWitnesses, type Witnesses } from '../support/truth/open-witnesses.ts';

const onPrem = ['onprem-a', 'onprem-b'];
const models = {
  pair: { tier: 'standard', pool: 'default', backends: onPrem },
  other: { tier: 'standard', pool: 'default', backends: ['cloud'] },
  silent: { tier: 'guest', pool: 'default' },
  one: { tier: 'guest', pool: 'default', backends: ['onprem-a'] },
};
const question = 'Still there?';
/** `queue_ms` is longer than a test waits, so what gets an answer has not waited for it. */
const usual = { queue_ms: 60_000, request_ms: 600_000, first_token_ms: 30_000 };

const parts = new AsyncDisposableStack();
let stack: Stack;
let witnesses: Witnesses;

test.before(async () => {
  const modelServers = { firstTokenMs: 150, tokensPerSecond: 2_000 };
  stack = parts.use(await startStack({ models, modelServers, timeouts: usual, env: { CONCURRENCY: '16' } }));
  witnesses = parts.use(await openWitnesses(stack));
});
test.after.always(() => parts.disposeAsync());

const url = () => stack.ingresses[0]?.url ?? '';

/** Resolves when the change is in force in every process. */
async function changePlan(edit: (plan: EditedPlan) => void): Promise<void> {
  const editor = createPlanEditor(stack);
  const generation = await editor.change(edit);
  await editor.until([...stack.ingresses, ...stack.workers], (shown) => shown.generation === generation);
}

/** Until the end of the test. */
async function useTimeouts(t: ExecutionContext, timeouts: Record<string, number>): Promise<void> {
  t.teardown(() => changePlan((plan) => void Object.assign(plan, { timeouts: usual })));
  await changePlan((plan) => void Object.assign(plan, { timeouts: { ...usual, ...timeouts } }));
}

async function breakersOf(model: string): Promise<Record<string, string>> {
  const answer = await fetch(`${stack.workers[0]?.operationsUrl}/readyz`);
  const { breakers } = (await answer.json()) as { breakers: { model: string; backend: string; breaker: string }[] };
  return Object.fromEntries(
    breakers.filter((each) => each.model === model).map((each) => [each.backend, each.breaker]),
  );
}

async function untilBreaker(model: string, backend: string, state: string): Promise<void> {
  while ((await breakersOf(model))[backend] !== state) await sleep(20);
}

/** A breaker opens for failures of two accounts. */
const twoAccounts = (name: string) =>
  Promise.all([unlimitedKey(stack, `${name}-first`), unlimitedKey(stack, `${name}-second`)]);

const callsOfBackends = () => stack.modelServers.reduce((sum, server) => sum + server.calls().length, 0);
const callsOf = (server: ModelServer, model: string) => server.calls().filter((call) => call.model === model);

faultTest(
  test.serial,
  {
    id: '17e',
    done: 'one of two replicas resets every connection under 64 clients',
    promised:
      'no client sees an error; the breaker opens, each account probes the replica every five seconds at most, and it is used again',
  },
  async (t, see) => {
    const keys = await twoAccounts('17e');
    const [dying, living] = stack.modelServers;
    const load = startLoad(t, { url, keys, name: 'load', clients: 64, model: 'pair' });
    await until(() => callsOf(dying, 'pair').length > 50 && callsOf(living, 'pair').length > 50);

    dying.fail({ resetBeforeHeaders: true });
    await untilBreaker('pair', 'onprem-a', 'open');
    const openedWith = load.endings.length;
    // What was in flight when it opened has ended after that.
    await until(() => load.endings.length > openedWith + 100);
    const calm = { calls: callsOf(dying, 'pair').length, at: performance.now(), answered: load.endings.length };
    const probes = () => callsOf(dying, 'pair').length - calm.calls;
    await until(() => load.endings.length > calm.answered + 200 && probes() > 0);
    // A failed probe that may be the fault of its account leaves one to the other account.
    const probesMax = 2 * (1 + (performance.now() - calm.at) / 4_000);
    t.true(probes() <= probesMax, `hundreds of requests skipped it, except for ${probes()} probes`);
    see(`${probes()} calls to the failed replica while its breaker was open`);

    dying.heal();
    await untilBreaker('pair', 'onprem-a', 'closed');
    const before = { dying: callsOf(dying, 'pair').length, living: callsOf(living, 'pair').length };
    await until(() => callsOf(dying, 'pair').length > before.dying + 100);
    const share = callsOf(living, 'pair').length - before.living;
    t.true(share > 20 && share < 500, `while it took 100 calls the other took ${share}`);

    const endings = await load.stop();
    t.deepEqual(
      endings.filter(({ kind }) => kind !== 'answered'),
      [],
    );
    see(`${endings.length} requests answered`);
    const { records, contradictions } = await witnesses.agreeOn(t, []);
    see(`${records.size} records, ${contradictions.length} contradictions`);
  },
);

for (const { model, attempted, begin, ...fault } of [
  {
    id: '18a',
    done: 'all backends of a model refuse connections',
    promised:
      '503 UPSTREAMS_EXHAUSTED naming the backends that were tried; immediate, without a call, when their breakers are open',
    model: 'gone',
    attempted: ['gone-a', 'gone-b'],
    async begin() {
      const address = `http://127.0.0.1:${await freePort()}/v1`;
      await changePlan(({ backends, models }) => {
        for (const name of ['gone-a', 'gone-b']) backends[name] = { url: address, location: 'on-prem' };
        models.gone = { tier: 'guest', pool: 'default', backends: ['gone-a', 'gone-b'], output_tokens_max: 100 };
      });
    },
  },
  {
    id: '18b',
    done: 'all backends of a model hang',
    promised: '503 UPSTREAMS_EXHAUSTED after their timeouts; immediate, without a call, when their breakers are open',
    model: 'silent',
    attempted: ['onprem-a', 'onprem-b', 'cloud'],
    async begin(t: ExecutionContext) {
      await useTimeouts(t, { first_token_ms: 500 });
      for (const server of stack.modelServers) server.fail({ hang: true });
      t.teardown(() => {
        for (const server of stack.modelServers) server.heal();
      });
    },
  },
]) {
  faultTest(test.serial, fault, async (t, see) => {
    const [first, second] = await twoAccounts(fault.id);
    await begin(t);
    async function refusal(stream: boolean, key = first) {
      const answer = await chat({ url: url(), key, question, stream, model, signal: AbortSignal.timeout(30_000) });
      const { code, tier, attempted } = (await answer.json()) as Record<string, string | string[]>; // checked by the test
      return { status: answer.status, code, tier, attempted: [...(attempted ?? [])].toSorted() };
    }
    const exhausted = { status: 503, code: 'UPSTREAMS_EXHAUSTED', tier: 'guest', attempted: attempted.toSorted() };
    t.deepEqual(await refusal(false), exhausted);

    const areOpen = async () =>
      isDeepStrictEqual(
        Object.values(await breakersOf(model)),
        attempted.map(() => 'open'),
      );
    for (let times = 0; times < 10 && !(await areOpen()); times++)
      await Promise.all([refusal(true), refusal(false), refusal(true, second), refusal(false, second)]);
    t.true(await areOpen());
    const calls = callsOfBackends();
    for (const stream of [false, true, false]) t.deepEqual(await refusal(stream), exhausted);
    t.is(callsOfBackends(), calls, 'no backend is called for them');
    see('1 of 1 refused with the backends that were tried, then 3 of 3 without a call');
  });
}

faultTest(
  test.serial,
  {
    id: '19a',
    done: 'no worker takes a request within queue_ms',
    promised: '503, and no backend is ever called for it',
  },
  async (t, see) => {
    const key = await stack.mintKey('bob-a');
    await useTimeouts(t, { queue_ms: 2_000 });
    const before = callsOfBackends();
    await Promise.all(stack.workers.splice(0).map(({ process }) => process.stop()));
    const refused = await Promise.all([false, true].map((stream) => chat({ url: url(), key, question, stream })));
    for (const response of refused) {
      t.is(response.status, 503);
      t.like(await response.json(), { code: 'SERVICE_UNAVAILABLE' });
    }
    await stack.startWorker();
    t.is((await chat({ url: url(), key, question })).status, 200);
    const calls = callsOfBackends() - before;
    t.is(calls, 1);
    see(`queue_ms 2000: ${refused.map(({ status }) => status).join(', ')}; ${calls - 1} backend calls for them`);
  },
);

faultTest(
  test.serial,
  {
    id: '19b',
    done: 'a backend does not finish within request_ms',
    promised: '504, or an error frame; the backend call is cancelled',
  },
  async (t, see) => {
    const key = await stack.mintKey('carol');
    const [server] = stack.modelServers;
    await useTimeouts(t, { request_ms: 4_000 });
    const before = server.calls().length;
    server.fail({ endless: true, chunkMs: 20, times: 1 });
    const streamed = streamEvents(await (await chat({ url: url(), key, question, model: 'one', stream: true })).text());
    const last = streamed.at(-1);
    if (last === undefined || last === '[DONE]') return t.fail(`the stream ended with ${last}`);
    t.is(last.error?.code, 'DEADLINE_EXCEEDED');

    server.fail({ hang: true, times: 1 });
    const whole = await chat({ url: url(), key, question, model: 'one' });
    t.is(whole.status, 504);
    t.like(await whole.json(), { code: 'DEADLINE_EXCEEDED' });
    const states: string[] = [];
    for (const { id } of server.calls().slice(before))
      states.push((await server.waitForCall((call) => call.id === id && call.state !== 'running')).state);
    t.deepEqual(states, ['aborted', 'aborted']);
    see(`a stream: ${last.error?.code}; a complete response: ${whole.status}; their calls: ${states.join(', ')}`);
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
    // A request that waited behind hanging ones for so long would be refused.
    await useTimeouts(t, { first_token_ms: 4_000, queue_ms: 4_000 });
    const keys = await twoAccounts('18c');
    const other = startLoad(t, { url, keys, name: 'other', clients: 8, model: 'other' });
    await until(() => other.endings.length > 50);

    for (const server of stack.modelServers.slice(0, 2)) server.fail({ hang: true }, 'pair');
    const broken = startLoad(t, { url, keys, name: 'broken', clients: 64, model: 'pair' });
    await untilBreaker('pair', 'onprem-a', 'open');
    await untilBreaker('pair', 'onprem-b', 'open');
    const [answered, refused] = [other.endings.length, broken.endings.length];
    await until(() => other.endings.length > answered + 200 && broken.endings.length > refused + 300);

    // A stream that has waited ten seconds has begun, so its error is in it.
    const isLate = (ending: RequestEnd) =>
      ending.kind === 'failed' && ending.id.endsWith('s') && !ending.detail.includes('"content"');
    const isError = (ending: RequestEnd) => ending.kind === 'refused' || isLate(ending);
    t.deepEqual(
      (await broken.stop()).filter((ending) => !isError(ending)),
      [],
    );
    t.deepEqual(
      (await other.stop()).filter(({ kind }) => kind !== 'answered'),
      [],
    );
    t.deepEqual(await breakersOf('other'), { cloud: 'closed' });
    see(
      `${other.endings.length} of ${other.endings.length} of the other model answered; ${broken.endings.length} got an error`,
    );
  },
);
