import type { ExecutionContext } from 'ava';
import test from 'ava';
import { openStore } from '../../shared/process/open-store.ts';
import { countTokens, loadTokenizer } from '../../workers/failover/count-tokens.ts';
import { answerFor, type Fault, pieces, promptTokensOf } from '../stack/model-server.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import {
  attemptsOf,
  type Case,
  endingOf,
  endsInTime,
  fails,
  firstBackendOf,
  type Outcome,
  patienceMs,
  serverOf,
} from '../support/backend-outcome.ts';
import { chargedPrompt } from '../support/charged-prompt.ts';
import type { ChatEnding } from '../support/chat-ending.ts';
import { chatForm } from '../support/client-forms/choices-forms.ts';
import { type ClientForm, parseJson } from '../support/client-forms/client-form.ts';
import { everyForm } from '../support/client-forms/every-form.ts';
import { responseForm } from '../support/client-forms/named-event-forms.ts';
import { everyEndpoint } from '../support/every-endpoint.ts';
import { backendFaults, type Row } from '../support/faults/backend-faults.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { changeTimeouts } from '../support/plan-file-editor.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { createRequestEvidence } from '../support/request-evidence.ts';
import { someOf } from '../support/size.ts';

/** One request to one endpoint, whose first backend has a fault. The second, if there is one, has none. */
type EndpointCase = { form: ClientForm; stream: boolean; fault: Fault } & Omit<Case, 'way'>;

const question = 'Was heißt 東京 👩‍👩‍👧‍👦 ?';
const messages = [{ role: 'user', content: question }];
const answer = answerFor(messages);
const reported = { promptTokens: promptTokensOf(messages), completionTokens: pieces(answer).length };

/** Whole answers of endpoints with streams are assembled as those of chat completions are. Others are passed on as they came. */
function outcomeAt(form: ClientForm, stream: boolean, row: Row): Outcome | undefined {
  // Vectors are checked while they arrive, so nothing waits for the rest of these.
  const isInVector = form.path === '/v1/embeddings' && row.fault.derails?.into.startsWith('endless');
  if (isInVector) return { what: 'moves on', attempt: 'failed' };
  if (!form.hasStreams) return row['as it came'];
  // Only its last event says that a response is complete.
  const isUnended = row.fault.noDone && form === responseForm;
  if (isUnended) return { what: stream ? 'breaks off' : 'moves on', attempt: 'interrupted' };
  // Its event of a failed response says why.
  const isFailed = row.fault.derails?.into === 'an abort' && form === responseForm;
  if (isFailed && !(stream && row.fault.derails?.afterChunks)) return { what: 'moves on', attempt: 'failed' };
  return stream ? row.streamed : row.whole;
}

const faults = [
  {
    path: '/v1/completions',
    id: '17i',
    done: 'a backend of completions refuses, breaks off, stalls, derails or answers unusually, in every way',
    promised: 'status, failover and charge are as for chat completions, and no stream ends silently',
  },
  {
    path: '/v1/responses',
    id: '17j',
    done: 'a backend of responses does the same',
    promised: 'status, failover and charge are as for chat completions, and a broken stream ends with an error event',
  },
  {
    path: '/v1/messages',
    id: '17k',
    done: 'a backend of messages does the same',
    promised: 'status, failover and charge are as for chat completions, and a broken stream ends with an error event',
  },
  {
    path: '/v1/embeddings',
    id: '17l',
    done: 'a backend of embeddings does the same',
    promised: 'status, failover and charge are as for whole chat completions',
  },
  {
    path: '/v1/rerank',
    id: '17m',
    done: 'a backend of rerank does the same',
    promised: 'status, failover and charge are as for whole chat completions',
  },
];

const ofMessages = faults.filter(({ path }) => path === '/v1/messages');
/** Of the others there are no models either: every queue costs the worker time. */
const tested = someOf(ofMessages, faults);

const forms = everyForm.filter(({ path }) => tested.some((fault) => fault.path === path));
/** Cases that run at the same time. Every second one may need a second round, and a worker saves up ten. */
const atOnce = 10;
const cases: EndpointCase[] = forms.flatMap((form) =>
  [true, false].flatMap((stream) => (stream && !form.hasStreams ? [] : casesOf(form, stream))),
);

/** After this time a stream begins without its first token (contract.md#d6-held-status). */
const heldBackMs = 10_000;

/**
 * Breakers belong to a backend and a model. Each case has its own model, so cases do not affect each other. Every second one has a backend
 * after its first one: all of both kinds would be more than a plan file can have, and each kind has each fault at some endpoint. Of the
 * small size, each fault comes either streamed or whole.
 */
function casesOf(form: ClientForm, stream: boolean): EndpointCase[] {
  return backendFaults.flatMap((row, index) => {
    const outcome = outcomeAt(form, stream, row);
    const streams = someOf([Math.floor(index / 2) % 2 === 0], [true, false]);
    if (outcome === undefined || !streams.includes(stream)) return [];
    const name = `${index}-${form.path.split('/').at(-1)}-${stream ? 'streamed' : 'whole'}`;
    const common = { form, stream, fault: row.fault, outcome };
    const isAlone = (index + forms.indexOf(form) + (stream ? 1 : 0)) % 2 === 0;
    const first = firstBackendOf(outcome, name);
    return [{ ...common, model: name, backends: isAlone ? [first] : [first, 'cloud'] }];
  });
}

const parts = new AsyncDisposableStack();
let stack: Stack;
let evidence: ReturnType<typeof createRequestEvidence>;
let key: string;

test.before(async () => {
  await loadTokenizer(); // it would block the model servers, which are in this process, in the middle of a case
  const models = cases.map(({ model, backends, outcome }) => {
    const waits = outcome.what === 'waits' && backends.length === 1;
    return [model, { ...everyEndpoint.everything, backends, ...(waits && { queue_ms: 4_000 }) }];
  });
  stack = parts.use(
    await startStack({
      models: { ...Object.fromEntries(models), ...everyEndpoint },
      backends: Object.fromEntries(cases.map(({ backends: [first = ''] }) => [first, {}])),
      plans: { free: { model_tiers: ['guest'] } },
    }),
  );
  const store = parts.use(await openStore(`sqlite:${stack.directory}/store.sqlite`, recordedLog()));
  evidence = createRequestEvidence(stack, store);
  key = await stack.mintKey('alice');
});

test.after.always(() => parts.disposeAsync());

/** Only what a time limit has to end has a short one: on a busy machine, everything else may take longer. */
const patient = { first_token_ms: 60_000, idle_ms: 60_000, request_ms: 300_000 };
const impatient = { first_token_ms: 3_000, idle_ms: 3_000, request_ms: 15_000 };

for (const { path, ...fault } of tested) {
  faultTest(test.serial, fault, async (t, see) => {
    t.timeout(300_000);
    const own = cases.filter(({ form }) => form.path === path);
    for (const { model, fault } of own) stack.modelServers[0].fail(fault, model);
    const timed = own.filter(({ outcome }) => endsInTime(outcome));
    await changeTimeouts(stack, patient);
    await areAsTheyShouldBe(
      t,
      own.filter((one) => !timed.includes(one)),
    );
    await changeTimeouts(stack, impatient);
    await areAsTheyShouldBe(t, timed);
    await t.notThrowsAsync(evidence.untilNothingIsOpen());
    for (const worker of stack.workers) t.is(worker.process.errors(), '');
    see(`${own.length} requests answered, charged and counted against their backend as expected`);
  });
}

async function areAsTheyShouldBe(t: ExecutionContext, all: readonly EndpointCase[]): Promise<void> {
  for (let from = 0; from < all.length; from += atOnce) {
    await saveUpRounds();
    await Promise.all(all.slice(from, from + atOnce).map((one) => isAsItShouldBe(t, one)));
  }
}

/** Second rounds are limited to a fifth of all requests: these requests make room for one per case. */
async function saveUpRounds(): Promise<void> {
  const asking = { model: 'everything', form: chatForm, stream: false };
  await Promise.all(Array.from({ length: 5 * atOnce }, () => ask(asking)));
}

const tokensMax = 4_000;
const bodyOf = ({ form, model, stream }: Pick<EndpointCase, 'form' | 'model' | 'stream'>) =>
  form.bodyOf({ model, question, stream, includeUsage: false, tokensMax });

async function ask(asked: Pick<EndpointCase, 'form' | 'model' | 'stream'>) {
  const { form, stream } = asked;
  const startedAt = performance.now();
  const response = await fetch(`${stack.ingresses[0]?.url}${form.path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify(bodyOf(asked)),
    signal: AbortSignal.timeout(patienceMs),
  });
  const text = await response.text();
  const requestId = response.headers.get('x-request-id') ?? '';
  return {
    requestId,
    ms: performance.now() - startedAt,
    ...(response.status === 200 ? readAnswer(form, stream, text) : readError(response.status, text)),
  };
}

type Asked = { ending: ChatEnding; text: string };

function readAnswer(form: ClientForm, stream: boolean, text: string): Asked {
  const unlike: ChatEnding = { kind: 'unlike anything', detail: text.slice(-500) };
  const expected = form.hasText ? answer : '';
  if (!stream) {
    const whole = form.readWhole(parseJson(text));
    return { ending: whole?.text === expected ? { kind: 'answer' } : unlike, text: whole?.text ?? '' };
  }
  const read = form.readStream(text);
  if (read === undefined) return { ending: unlike, text: '' };
  if (read.ending === 'interrupted') return { ending: { kind: 'part', code: read.code }, text: read.text };
  return { ending: read.text === expected ? { kind: 'answer' } : unlike, text: read.text };
}

/** In the shape of the service, or in Anthropic's. */
function readError(status: number, text: string): Asked {
  const body = JSON.parse(text); // a response of the service itself
  const { code, tier, attempted } = typeof body.error === 'string' ? body : body.error;
  const named = { ...(tier !== undefined && { tier }), ...(attempted !== undefined && { attempted }) };
  return { ending: { kind: 'error', status, code, ...named }, text: '' };
}

async function isAsItShouldBe(t: ExecutionContext, one: EndpointCase): Promise<void> {
  const { form, stream, model, fault, outcome, backends } = one;
  const what = `${model} ${JSON.stringify(fault)}`;
  const likeChat: Case = { model, backends, outcome, way: stream ? 'streamed' : 'whole' };
  const { requestId, ms, text, ...asked } = await ask(one);
  const record = await evidence.record(requestId);
  const attempts = attemptsOf(likeChat);
  const expected = endingOf(likeChat);
  const ending = ms > heldBackMs && isLateError(expected, asked.ending, text) ? expected : asked.ending;
  // Compared as one, so that an unexpected ending is reported with its attempts.
  t.deepEqual(
    { ending, attempts: record.attempts.map(({ backend, outcome }) => [backend, outcome]) },
    { ending: expected, attempts },
    what,
  );
  const calls = evidence.calls(requestId);
  t.deepEqual(
    // A busy backend is asked again after its pause.
    outcome.what === 'waits' ? [...new Set(calls)] : calls,
    attempts.map(([backend]) => serverOf(backend)),
    what,
  );
  t.is(record.endpoint, form.path);
  t.is(record.outcome, ending.kind === 'answer' ? 'completed' : 'failed', what);
  const { promptTokens, completionTokens, counted, chargedTokens } = record;
  t.deepEqual({ promptTokens, completionTokens, counted }, await chargeOf(one, { ending, text }), what);
  t.is(chargedTokens, promptTokens + completionTokens, what);
  if (backends.length === 1 && !fails(outcome))
    t.deepEqual(await evidence.breakers(model), { [backends[0] ?? '']: 'closed' });
}

/** On a busy machine an answer can take so long that a stream has begun with comments: then its error is a frame with the same code. */
function isLateError(expected: ChatEnding, ending: ChatEnding, text: string): boolean {
  return expected.kind === 'error' && ending.kind === 'part' && ending.code === expected.code && text === '';
}

/**
 * Reported usage for an answer, the delivered text for a part of one, the prompt and the whole limit for an answer that is too large, and
 * nothing for another error.
 */
async function chargeOf(one: EndpointCase, { ending, text }: Asked) {
  const { form, outcome } = one;
  if (outcome.what === 'is too large') {
    const promptTokens = await chargedPrompt({ endpoint: form.path, request: bodyOf(one) });
    return { promptTokens, completionTokens: form.hasText ? tokensMax : 0, counted: 'estimated' };
  }
  const isNothing = ending.kind === 'error' || (ending.kind === 'part' && text === '');
  if (isNothing) return { promptTokens: 0, completionTokens: 0, counted: 'estimated' };
  const isEstimated = ending.kind === 'part' || (outcome.what === 'answers' && outcome.counted === 'estimated');
  if (!isEstimated) return { ...reported, ...(!form.hasText && { completionTokens: 0 }), counted: 'reported' };
  const promptTokens = await chargedPrompt({ endpoint: form.path, request: bodyOf(one) });
  return { promptTokens, completionTokens: await countTokens(text), counted: 'estimated' };
}
