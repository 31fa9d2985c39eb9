import type { ExecutionContext } from 'ava';
import test from 'ava';
import { openStore } from '../../shared/process/open-store.ts';
import { loadTokenizer } from '../../workers/failover/count-tokens.ts';
import { answerFor, pieces, promptTokensOf } from '../stack/model-server.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { awaitMetric } from '../support/await-metric.ts';
import {
  attemptsOf,
  type Case,
  chargeOf,
  endingOf,
  endsInTime,
  everyWay,
  exhausted,
  fails,
  firstBackendOf,
  nameOf,
  patienceMs,
  serverOf,
  ways,
} from '../support/backend-outcome.ts';
import { chat, chatBody } from '../support/chat.ts';
import { readEnding } from '../support/chat-ending.ts';
import { backendFaults, type Row } from '../support/faults/backend-faults.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { changeTimeouts } from '../support/plan-file-editor.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { createRequestEvidence } from '../support/request-evidence.ts';
import { someOf } from '../support/size.ts';

/** Breakers belong to a backend and a model. Each case has its own model, so cases do not affect each other. */
const cases = new Map(backendFaults.map((row, index) => [row, casesOf(row, index)]));

function casesOf(row: Row, index: number): Case[] {
  const all = everyWay.flatMap((way) => {
    const outcome = row[way];
    return outcome === undefined ? [] : [{ way, outcome }];
  });
  const few = all.filter((_, position) => position === index % all.length);
  return someOf(few, all).flatMap(({ way, outcome }) => {
    const name = `${index}-${nameOf(way)}`;
    const first = (how: string) => firstBackendOf(outcome, `${how}-${name}`);
    const both = [
      { model: `alone-${name}`, backends: [first('alone')], way, outcome },
      { model: `followed-${name}`, backends: [first('followed'), 'cloud'], way, outcome },
    ];
    return someOf(
      both.filter((_, position) => position === index % 2),
      both,
    );
  });
}

const question = 'Was heißt 東京 👩‍👩‍👧‍👦 ?';
const messages = [{ role: 'user', content: question }];
const answer = answerFor(messages);
const reported = { promptTokens: promptTokensOf(messages), completionTokens: pieces(answer).length };

const parts = new AsyncDisposableStack();
let stack: Stack;
let evidence: ReturnType<typeof createRequestEvidence>;
let key: string;
/** Of another account: failures count against a backend if requests of two have them. */
let otherKey: string;

test.before(async () => {
  await loadTokenizer(); // it would block the model servers, which are in this process, in the middle of a case
  const place = { tier: 'guest', pool: 'default' };
  const models = [...cases.values()]
    .flat()
    .map(({ model, backends, outcome }) => [
      model,
      { ...place, backends, ...(outcome.what === 'waits' && backends.length === 1 && { queue_ms: 4_000 }) },
    ]);
  const ownBackends = Object.fromEntries([...cases.values()].flat().map(({ backends: [first = ''] }) => [first, {}]));
  const all = { ...place, backends: ['onprem-a', 'onprem-b', 'cloud'] };
  const everywhere = ['small-chat', ...everyWay.map((way) => `all-${nameOf(way)}`)].map((model) => [model, all]);
  stack = parts.use(
    await startStack({
      models: Object.fromEntries([...models, ...everywhere]),
      backends: ownBackends,
      plans: { free: { model_tiers: ['guest'] } },
    }),
  );
  const store = parts.use(await openStore(`sqlite:${stack.directory}/store.sqlite`, recordedLog()));
  evidence = createRequestEvidence(stack, store);
  key = await stack.mintKey('alice');
  otherKey = await stack.mintKey('bob');
});

test.after.always(() => parts.disposeAsync());

/** Only what a time limit has to end has a short one: on a busy machine, everything else may take longer. */
const patient = { first_token_ms: 60_000, idle_ms: 60_000, request_ms: 300_000 };
const impatient = { first_token_ms: 3_000, idle_ms: 3_000, request_ms: 12_000 };

/** Faults that are tested at the same time. Each has three requests or fewer with a second round, of which ten can be saved up. */
const atOnce = 3;

const kindOf = (row: Row) => row.streamed?.what;

for (const { kind, ...fault } of [
  {
    kind: 'moves on' as const,
    id: '17a',
    done: 'a backend refuses, resets, closes, hangs, redirects or returns garbage before its first token, in 31 ways',
    promised:
      'the next backend answers and the client sees no error; without a next backend 503; failures of two accounts open the breaker, those of one do not',
  },
  {
    kind: 'breaks off' as const,
    id: '17b',
    done: 'a backend resets, ends, stalls or derails after its first token, in 10 ways',
    promised:
      'a stream ends with the error frame UPSTREAM_INTERRUPTED and is charged the delivered output; a complete response comes from the next backend',
  },
  {
    kind: 'runs out' as const,
    id: '17c',
    done: 'a backend never finishes',
    promised: '504 DEADLINE_EXCEEDED, or an error frame; only a backend that sent nothing is at fault',
  },
  {
    kind: 'answers' as const,
    id: '17d',
    done: 'a backend responds unusually: slow headers, no usage, no [DONE], a wrong length',
    promised:
      'the client gets the complete response, counted by the tokenizer if no usage was reported; no breaker opens',
  },
  {
    kind: 'is refused' as const,
    id: '17g',
    done: 'a backend rejects the request as invalid: 400, 413, 422, or a 500 that names it',
    promised: 'the client gets 400 VALIDATION_ERROR or 413, no other backend is called, and no breaker opens',
  },
  {
    kind: 'waits' as const,
    id: '17n',
    done: 'a backend is busy or loads its model, in 6 ways',
    promised: 'the next backend answers; without one the request waits up to queue_ms, then 503; no breaker opens',
  },
  {
    kind: 'is elsewhere' as const,
    id: '17o',
    done: 'a backend does not have the route or the model: 404, 405, 501',
    promised: 'the next backend answers; without one 503; no breaker opens',
  },
]) {
  faultTest(test.serial, fault, async (t, see) => {
    t.timeout(300_000);
    const own = [...cases].filter(([row]) => kindOf(row) === kind);
    const timed = own.filter(([, ofFault]) => ofFault.some(({ outcome }) => endsInTime(outcome)));
    const others = own.filter((one) => !timed.includes(one));
    for (const [timeouts, faults] of [[patient, others] as const, [impatient, timed] as const]) {
      await changeTimeouts(stack, timeouts);
      for (let index = 0; index < faults.length; index += atOnce) {
        const some = faults.slice(index, index + atOnce);
        await areAsTheyShouldBe(t, some).catch((error: unknown) => {
          t.log(`at ${JSON.stringify(some.map(([{ fault }]) => fault))}`);
          throw error;
        });
      }
    }
    await leavesNothingOpen(t);
    const asked = own.flatMap(([, ofFault]) => ofFault).length;
    see(`${own.length} faults, ${asked} requests answered, charged and counted against their backend as expected`);
    see('0 calls and 0 open connections at the model servers afterwards');
  });
}

/** Checks the responses, the charges, and the failures counted against the backend. */
async function areAsTheyShouldBe(t: ExecutionContext, faults: readonly (readonly [Row, Case[]])[]): Promise<void> {
  for (const [{ fault }, ofFault] of faults) for (const { model } of ofFault) stack.modelServers[0].fail(fault, model);
  const all = faults.flatMap(([, ofFault]) => ofFault);
  const alone = all.filter(({ backends }) => backends.length === 1);
  await saveUpRounds();
  const [asked] = await Promise.all([
    Promise.all(all.map((one) => askFirst(t, one))),
    Promise.all(alone.filter(({ outcome }) => !fails(outcome)).map((one) => staysClosed(t, one))),
  ]);
  await Promise.all(alone.filter(({ outcome }) => fails(outcome)).map((one) => opensBreaker(t, one)));
  for (const [index, one] of all.entries()) await isCharged(t, one, asked[index]);
}

/** Second rounds are limited to a fifth of all requests: these requests make room for all that can be saved up. */
async function saveUpRounds(): Promise<void> {
  await Promise.all(Array.from({ length: 50 }, () => ask({ model: 'small-chat', way: 'whole' })));
}

async function ask({ model, way }: Pick<Case, 'model' | 'way'>, withKey = key) {
  const response = await chat({
    ...{ url: stack.ingresses[0]?.url ?? '', key: withKey, ...askedIn({ model, way }) },
    signal: AbortSignal.timeout(patienceMs),
  });
  const { ending, text } = readEnding(response.status, await response.text(), { stream: way === 'streamed', answer });
  return { ending, text, requestId: response.headers.get('x-request-id') ?? '' };
}

const askedIn = ({ model, way }: Pick<Case, 'model' | 'way'>) => ({ question, model, fields: ways[way] });

type Asked = Awaited<ReturnType<typeof ask>>;

async function askFirst(t: ExecutionContext, one: Case): Promise<Asked> {
  const { model, backends } = one;
  const asked = await ask(one);
  t.deepEqual(asked.ending, endingOf(one), model);
  const called = attemptsOf(one).map(([backend]) => serverOf(backend));
  const calls = evidence.calls(asked.requestId);
  // A busy backend is asked again after its pause.
  t.deepEqual(one.outcome.what === 'waits' ? [...new Set(calls)] : calls, called, model);
  const closed = Object.fromEntries(backends.map((name) => [name, 'closed']));
  t.deepEqual(await evidence.breakers(model), closed, model);
  return asked;
}

async function isCharged(t: ExecutionContext, one: Case, asked: Asked | undefined): Promise<void> {
  const { requestId = '', text = '', ending } = asked ?? {};
  const record = await evidence.record(requestId);
  const { promptTokens, completionTokens, counted, chargedTokens, outcome } = record;
  const attempts = record.attempts.map((attempt) => [attempt.backend, attempt.outcome]);
  t.deepEqual(attempts, attemptsOf(one), one.model);
  t.is(outcome, ending?.kind === 'answer' ? 'completed' : 'failed', one.model);
  t.deepEqual(
    { promptTokens, completionTokens, counted },
    await chargeOf(one, { text, request: chatBody(askedIn(one)), reported }),
    one.model,
  );
  t.is(chargedTokens, promptTokens + completionTokens, one.model);
}

const fourMore = (one: Case, withKey = key) => Promise.all(Array.from({ length: 4 }, () => ask(one, withKey)));

async function staysClosed(t: ExecutionContext, one: Case): Promise<void> {
  await fourMore(one);
  t.deepEqual(await evidence.breakers(one.model), { [one.backends[0] ?? '']: 'closed' }, one.model);
}

/**
 * Failures of two accounts open a breaker, however slow they are, but none of one account alone. Slow ones of an account wait for each
 * other, so some requests of a round end at their own deadline.
 */
async function opensBreaker(t: ExecutionContext, one: Case): Promise<void> {
  const isPaused = one.outcome.what === 'moves on' && one.outcome.isPaused;
  const breaker = async () => (await evidence.breakers(one.model))[one.backends[0] ?? ''] ?? '';
  await fourMore(one);
  t.is(await breaker(), 'closed', one.model);
  for (let rounds = 0; !isPaused && rounds < 3 && (await breaker()) === 'closed'; rounds++)
    await Promise.all([fourMore(one), fourMore(one, otherKey)]);
  // On a busy machine its first probe may already be due, and is made by the next request.
  t.regex(await breaker(), isPaused ? /^closed$/ : /^(open|half-open)$/, one.model);
  let last = await ask(one);
  while (!isPaused && evidence.calls(last.requestId).length > 0) last = await ask(one);
  t.deepEqual(last.ending, exhausted(one.backends), one.model);
  t.deepEqual(evidence.calls(last.requestId), [], one.model);
}

test.serial('a refusal of a backend keeps its message, without addresses', async (t) => {
  const errorMessage = 'This model has 8192 tokens; see http://10.0.0.7:8000/docs';
  for (const server of stack.modelServers) server.fail({ status: 400, errorMessage }, 'small-chat');
  for (const fields of Object.values(ways)) {
    const response = await chat({ url: stack.ingresses[0]?.url ?? '', key, question, fields });
    t.is(response.status, 400);
    const error = 'request: This model has 8192 tokens; see [address]';
    t.deepEqual(await response.json(), { error, code: 'VALIDATION_ERROR' });
  }
  await leavesNothingOpen(t);
});

faultTest(
  test.serial,
  {
    id: '18d',
    done: 'all backends of a model answer 504',
    promised: 'the response names each once, in the order they were tried; each is called at most twice',
  },
  async (t, see) => {
    for (const way of everyWay) {
      const model = `all-${nameOf(way)}`;
      for (const server of stack.modelServers)
        for (const name of [model, 'upstream-model']) server.fail({ status: 504 }, name);
      await saveUpRounds();
      const { ending, requestId } = await ask({ model, way });
      const calls = evidence.calls(requestId);
      const asked = calls.slice(0, 3);
      t.deepEqual(ending, exhausted(asked));
      t.deepEqual([asked.toSorted(), asked[2]], [['cloud', 'onprem-a', 'onprem-b'], 'cloud']);
      t.deepEqual(calls.toSorted(), [...asked, ...asked].toSorted());
    }
    await leavesNothingOpen(t);
    see(`${everyWay.length} of ${everyWay.length} ways: 3 backends named once, each called twice`);
  },
);

/** No job is running, and nothing was written to stderr. */
async function leavesNothingOpen(t: ExecutionContext): Promise<void> {
  await t.notThrowsAsync(evidence.untilNothingIsOpen());
  for (const worker of stack.workers) {
    // A job leaves its queue just after its client has the response.
    await awaitMetric(worker, /^svc_jobs_running\{pool="default",lane="interactive"\} 0$/m);
    t.is(worker.process.errors(), '');
  }
}
