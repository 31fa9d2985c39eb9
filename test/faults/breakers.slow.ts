import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { openStore } from '../../shared/process/open-store.ts';
import { loadTokenizer } from '../../workers/failover/count-tokens.ts';
import { answerFor, type Fault } from '../stack/model-server.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { everyWay, exhausted, nameOf, type Way, ways } from '../support/backend-outcome.ts';
import { chargedPrompt } from '../support/charged-prompt.ts';
import { chat, chatBody } from '../support/chat.ts';
import { readEnding } from '../support/chat-ending.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { changeTimeouts } from '../support/plan-file-editor.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { createRequestEvidence } from '../support/request-evidence.ts';

const question = 'Are you still there?';
const messages = [{ role: 'user', content: question }];
const answer = answerFor(messages);

/** One probe every five seconds, up to a fifth earlier or later. */
const probeMsMin = 4_000;
const askEveryMs = 50;
/** Only calls that are meant to be late reach it. */
const patientMs = 60_000;

type Ill = { fault: Fault; way: Way };

/** These return no token, so probes fail as well. */
const silent: Ill[] = [
  { fault: { status: 500 }, way: 'whole' },
  { fault: { resetBeforeHeaders: true }, way: 'as it came' },
  { fault: { hang: true }, way: 'streamed' },
];
/** These respond, but break off. */
const fickle: Ill[] = [
  { fault: { cutAfterChunks: 3 }, way: 'streamed' },
  { fault: { stallAfterChunks: 3 }, way: 'streamed' },
  { fault: { endAfterChunks: 3 }, way: 'whole' },
];
const ills = [...silent, ...fickle].map((ill, index) => ({
  ...ill,
  model: `ill-${index}`,
  isSilent: index < silent.length,
}));

const parts = new AsyncDisposableStack();
let stack: Stack;
let evidence: ReturnType<typeof createRequestEvidence>;
let key: string;
/** Of another account: failures count against a backend if requests of two have them. */
let otherKey: string;

test.before(async () => {
  await loadTokenizer(); // it would block the model servers, which are in this process, when the first client has left
  const own = (model: string, backend = 'onprem-a') => [model, { tier: 'guest', pool: 'default', backends: [backend] }];
  const leaving = everyWay.map((way) => `left-${nameOf(way)}`);
  const models = [...ills.map(({ model }) => model), ...leaving, 'paused'].map((model) => own(model));
  stack = parts.use(
    await startStack({
      timeouts: { first_token_ms: patientMs, idle_ms: patientMs, request_ms: 5 * patientMs },
      models: Object.fromEntries([...models, own('narrow', 'onprem-b')]),
      backends: { 'onprem-b': { requests_at_once: 2 } },
      plans: { free: { model_tiers: ['guest'] } },
    }),
  );
  const store = parts.use(await openStore(`sqlite:${stack.directory}/store.sqlite`, recordedLog()));
  evidence = createRequestEvidence(stack, store);
  key = await stack.mintKey('alice');
  otherKey = await stack.mintKey('bob');
});

test.after.always(async () => {
  await using _parts = parts;
  await evidence?.untilNothingIsOpen();
});

type Given = { withKey?: string; signal?: AbortSignal };

function post(model: string, way: Way, given: Given = {}): Promise<Response> {
  const { withKey = key, signal = AbortSignal.timeout(30_000) } = given;
  return chat({ url: stack.ingresses[0]?.url ?? '', key: withKey, question, model, fields: ways[way], signal });
}

async function ask({ model, way }: { model: string; way: Way }, withKey = key) {
  const response = await post(model, way, { withKey });
  return readEnding(response.status, await response.text(), { stream: way === 'streamed', answer }).ending;
}

const calls = (model: string) =>
  stack.modelServers.flatMap((server) => server.calls()).filter((call) => call.model === model);
const several = <T>(count: number, one: () => Promise<T>) => Promise.all(Array.from({ length: count }, one));

/** How long a backend may be silent. */
const limitSilence = (ms: number) => changeTimeouts(stack, { first_token_ms: ms, idle_ms: ms });

faultTest(
  test.serial,
  {
    id: '17f',
    done: 'a backend fails in six ways until its breaker opens, and recovers',
    promised: 'it gets only one probe every five seconds, and all requests again once one probe is answered',
  },
  async (t, see) => {
    await limitSilence(1_000); // a healthy answer needs none of it: until they are taken back, all fail
    const failures = await Promise.all(ills.map((ill) => isCutOff(t, ill)));
    see(`${failures.length} breakers opened after ${failures.join(', ')} failed calls`);
    const asked = await Promise.all(ills.filter(({ isSilent }) => isSilent).map((ill) => isOnlyProbed(t, ill)));
    see(`two probes of each silent backend while ${asked.join(', ')} requests were refused`);
    await limitSilence(patientMs);
    const probes = await Promise.all(ills.map((ill) => isTakenBack(t, ill)));
    see(`closed after ${probes.join(', ')} answered probes`);
  },
);

/** Returns the number of failed calls. */
async function isCutOff(t: ExecutionContext, ill: (typeof ills)[number]): Promise<number> {
  const { model, fault } = ill;
  stack.modelServers[0].fail(fault, model);
  await Promise.all([several(5, () => ask(ill)), several(5, () => ask(ill, otherKey))]);
  // On a busy machine its first probe may already be due.
  t.regex((await evidence.breakers(model))['onprem-a'] ?? '', /^(open|half-open)$/);
  return calls(model).length;
}

/** Checks that an open breaker allows only probes, regardless of the number of requests. Returns that number. */
async function isOnlyProbed(t: ExecutionContext, ill: (typeof ills)[number]): Promise<number> {
  const before = calls(ill.model).length;
  const probes = () => calls(ill.model).slice(before);
  let asked = 0;
  async function askOn(): Promise<void> {
    while (probes().length < 2) {
      asked += 1;
      t.deepEqual(await ask(ill), exhausted(['onprem-a']));
      await sleep(askEveryMs);
    }
  }
  await Promise.all([askOn(), askOn()]);
  const [first, second] = probes();
  const apartMs = (second?.startedAt ?? 0) - (first?.startedAt ?? 0);
  t.true(apartMs >= probeMsMin - 50, `${apartMs} ms between two probes`);
  t.is(probes().length, 2);
  t.true(asked > 10, `${asked} requests`);
  return asked;
}

/** Returns the number of calls until its breaker was closed. */
async function isTakenBack(t: ExecutionContext, ill: (typeof ills)[number]): Promise<number> {
  const { model } = ill;
  stack.modelServers[0].fail({ chunkMs: 0 }, model);
  const before = calls(model).length;
  let ending = await ask(ill);
  while (ending.kind !== 'answer') {
    t.deepEqual(ending, exhausted(['onprem-a']));
    await sleep(askEveryMs);
    ending = await ask(ill);
  }
  const probes = calls(model).length - before;
  t.is(probes, 1, 'the probe, whose response the client that caused it receives');
  t.deepEqual(await evidence.breakers(model), { 'onprem-a': 'closed' });
  t.deepEqual(await several(5, () => ask(ill)), Array(5).fill({ kind: 'answer' }));
  t.is(calls(model).length - before, 6);
  return probes;
}

faultTest(
  test.serial,
  {
    id: '7c',
    done: 'clients disconnect during a stream, a complete response, and a response that is relayed unchanged',
    promised: 'their calls end within a second and are charged; no breaker opens',
  },
  async (t, see) => {
    const tookMs = (await Promise.all(everyWay.map((way) => leave(t, way)))).flat();
    see(`${tookMs.length} calls ended, the last ${Math.max(...tookMs)} ms after its client disconnected`);
  },
);

/** Returns how long each of their calls continued. */
async function leave(t: ExecutionContext, way: Way): Promise<number[]> {
  const allMs: number[] = [];
  const model = `left-${nameOf(way)}`;
  const [server] = stack.modelServers;
  // Only the client's leaving can end them before `patientMs`.
  server.fail(way === 'as it came' ? { untilHealed: true } : { endless: true, chunkMs: 50 }, model);
  const gone = new AbortController();
  const asked = several(6, async () => (await post(model, way, { signal: gone.signal })).text());
  const isUnderWay = ({ chunksSent }: { chunksSent: number }) => way === 'as it came' || chunksSent > 3;
  while (calls(model).filter(isUnderWay).length < 6) await sleep(askEveryMs);
  gone.abort();
  const leftAt = Date.now();
  await t.throwsAsync(asked, { name: 'AbortError' });
  const request = chatBody({ question, model, fields: ways[way] });
  const promptTokens = await chargedPrompt({ endpoint: '/v1/chat/completions', request });
  for (const { id, requestId = '' } of calls(model)) {
    const call = await server.waitForCall((one) => one.id === id && one.state !== 'running');
    t.is(call.state, 'aborted');
    allMs.push((call.endedAt ?? 0) - leftAt);
    const { outcome, counted, completionTokens, ...record } = await evidence.record(requestId);
    t.deepEqual({ outcome, counted }, { outcome: 'cancelled', counted: 'estimated' });
    t.is(record.promptTokens, promptTokens);
    if (way === 'as it came') t.is(completionTokens, 4_096, 'what was produced is not known, so it is the limit');
    else t.true(completionTokens > 0);
  }
  t.deepEqual(await evidence.breakers(model), { 'onprem-a': 'closed' });
  return allMs;
}

faultTest(
  test.serial,
  {
    id: '18e',
    done: 'all backends of a model are at capacity',
    promised: 'requests wait up to queue_ms; no backend is overloaded, and no breaker opens',
  },
  async (t, see) => {
    stack.modelServers[1].fail({ latencyMs: 100 }, 'narrow');
    const endings = await several(12, () => ask({ model: 'narrow', way: 'whole' }));
    t.deepEqual(endings, Array(12).fill({ kind: 'answer' }));
    const made = calls('narrow');
    t.is(made.length, 12);
    // Counted by the model server at each arrival: times would depend on the speed of the machine.
    const atOnceMax = Math.max(...made.map(({ atOnce }) => atOnce));
    t.is(atOnceMax, 2);
    t.deepEqual(await evidence.breakers('narrow'), { 'onprem-b': 'closed' });
    const answered = endings.filter(({ kind }) => kind === 'answer').length;
    see(`${answered} of ${endings.length} answered; the backend had at most ${atOnceMax} at once`);
  },
);

faultTest(
  test.serial,
  {
    id: '17h',
    done: 'a backend asks for a pause (Retry-After)',
    promised: 'requests wait for it, it is not called for that time, and its breaker stays closed',
  },
  async (t, see) => {
    const one = { model: 'paused', way: 'streamed' } as const;
    stack.modelServers[0].fail({ status: 429, retryAfterSeconds: 5, times: 1 }, 'paused');
    t.deepEqual(await ask(one), { kind: 'answer' });
    const [first, second] = calls('paused');
    const pauseMs = (second?.startedAt ?? 0) - (first?.startedAt ?? 0);
    t.true(pauseMs >= 4_950, `${pauseMs} ms`);
    t.is(calls('paused').length, 2);
    const breakers = await evidence.breakers('paused');
    t.deepEqual(breakers, { 'onprem-a': 'closed' });
    see(`it was not called for ${pauseMs} ms; its breaker is ${breakers['onprem-a']}`);
  },
);
