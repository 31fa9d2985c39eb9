import test, { type ExecutionContext } from 'ava';
import { answerFor, type Fault } from '../stack/model-server.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { streamEvents } from '../support/chat.ts';

const messages = [{ role: 'user', content: 'Was heißt 東京 👩‍👩‍👧‍👦 ?' }];
const expected = answerFor(messages);

let stack: Stack;
let key: string;

test.before(async () => {
  stack = await startStack({ timeouts: { first_token_ms: 800, idle_ms: 800, request_ms: 6_000 } });
  key = await stack.mintKey('alice');
});

test.after.always(() => stack?.[Symbol.asyncDispose]());

test.afterEach.always(() => {
  for (const server of stack.modelServers) server.heal();
});

/** What a client gets: the right answer, an error with its status, or a part of the answer and an error frame. */
type Ending =
  | { kind: 'answer' }
  | { kind: 'error'; status: number; code: string }
  | { kind: 'part'; code: string }
  | { kind: 'unlike anything'; detail: string };

const answer: Ending = { kind: 'answer' };
const exhausted: Ending = { kind: 'error', status: 503, code: 'UPSTREAMS_EXHAUSTED' };
const late: Ending = { kind: 'error', status: 504, code: 'DEADLINE_EXCEEDED' };
const interrupted: Ending = { kind: 'part', code: 'UPSTREAM_INTERRUPTED' };

type Expected = { whole: Ending; streamed: Ending };

/** What a client gets when every backend has the fault, and when only the first has it. */
const table: { fault: Fault; everywhere: Expected; first: Expected }[] = [
  ...[{ status: 500 }, { status: 429, retryAfterSeconds: 60 }, { status: 401 }, { status: 404 }].map(beforeAnything),
  ...([{ resetBeforeHeaders: true }, { garbage: 'http' }, { garbage: 'json' }] as const).map(beforeAnything),
  ...[{ invalidUtf8: true }, { cutAfterChunks: 0 }, { endAfterChunks: 0 }].map(beforeAnything),
  // A whole answer has no first token: until its headers are there, only its deadline tells that it does not come.
  {
    fault: { hang: true },
    everywhere: { whole: late, streamed: exhausted },
    first: { whole: late, streamed: answer },
  },
  {
    fault: { stallAfterChunks: 0 },
    everywhere: { whole: exhausted, streamed: exhausted },
    first: { whole: answer, streamed: answer },
  },
  {
    fault: { cutAfterChunks: 3 },
    everywhere: { whole: exhausted, streamed: interrupted },
    first: { whole: answer, streamed: interrupted },
  },
  {
    fault: { endAfterChunks: 3 },
    everywhere: { whole: exhausted, streamed: interrupted },
    first: { whole: answer, streamed: interrupted },
  },
  {
    fault: { stallAfterChunks: 3 },
    everywhere: { whole: exhausted, streamed: interrupted },
    first: { whole: answer, streamed: interrupted },
  },
  {
    fault: { badEvents: true },
    everywhere: { whole: answer, streamed: exhausted },
    first: { whole: answer, streamed: answer },
  },
  {
    fault: { endless: true, chunkMs: 20 },
    everywhere: { whole: exhausted, streamed: { kind: 'part', code: 'DEADLINE_EXCEEDED' } },
    first: { whole: answer, streamed: { kind: 'part', code: 'DEADLINE_EXCEEDED' } },
  },
  ...[{ noDone: true }, { noUsage: true }, { slowHeadersMs: 100 }, { chunkMs: 5 }].map(harmless),
];

function beforeAnything(fault: Fault) {
  return {
    fault,
    everywhere: { whole: exhausted, streamed: exhausted },
    first: { whole: answer, streamed: answer },
  };
}

function harmless(fault: Fault) {
  return { fault, everywhere: { whole: answer, streamed: answer }, first: { whole: answer, streamed: answer } };
}

for (const { fault, everywhere, first } of table) {
  for (const stream of [false, true]) {
    const how = stream ? 'streamed' : 'whole';

    test.serial(`${JSON.stringify(fault)} on every backend: ${how}`, async (t) => {
      for (const server of stack.modelServers) server.fail(fault);
      const wanted = everywhere[stream ? 'streamed' : 'whole'];
      const { ending, body } = await ask(stream);
      t.deepEqual(ending, wanted);
      if (wanted === exhausted) {
        t.like(JSON.parse(body), { tier: 'guest', attempted: ['onprem-a', 'onprem-b', 'cloud'] });
      }
    });

    test.serial(`${JSON.stringify(fault)} on the first backend alone: ${how}`, async (t) => {
      stack.modelServers[0].fail(fault);
      t.deepEqual((await ask(stream)).ending, first[stream ? 'streamed' : 'whole']);
    });
  }
}

function post(stream: boolean, options: object = {}): Promise<Response> {
  return fetch(`${stack.ingresses[0]?.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'small-chat', stream, messages, ...options }),
    signal: AbortSignal.timeout(30_000),
  });
}

async function ask(stream: boolean): Promise<{ ending: Ending; body: string }> {
  const response = await post(stream);
  const body = await response.text();
  return { ending: endingOf(response, body, stream), body };
}

function endingOf({ status }: Response, body: string, stream: boolean): Ending {
  const unlike: Ending = { kind: 'unlike anything', detail: `${status} ${body.slice(-500)}` };
  if (status !== 200) {
    const { error, code } = JSON.parse(body) as { error?: unknown; code?: string }; // the service's own answer
    return typeof error === 'string' && code !== undefined ? { kind: 'error', status, code } : unlike;
  }
  if (!stream) return JSON.parse(body).choices[0].message.content === expected ? answer : unlike;
  const events = streamEvents(body);
  const text = events.map((event) => (event === '[DONE]' ? '' : (event.choices?.[0]?.delta?.content ?? ''))).join('');
  const last = events.at(-1);
  if (last === '[DONE]') return text === expected ? answer : unlike;
  const whole = text.length > 0 && expected.slice(0, text.length) === text.slice(0, expected.length);
  const code = last?.error?.code;
  return whole && code !== undefined && !body.includes('[DONE]') ? { kind: 'part', code } : unlike;
}

for (const status of [400, 413, 422]) {
  for (const stream of [false, true]) {
    test.serial(`a backend's ${status} is the client's mistake: ${stream ? 'streamed' : 'whole'}`, async (t) => {
      const before = calls();
      stack.modelServers[0].fail({ status, errorMessage: 'This model has 8192 tokens; see http://10.0.0.7:8000/docs' });
      const response = await post(stream);
      t.is(response.status, 400);
      t.deepEqual(await response.json(), {
        error: 'request: This model has 8192 tokens; see [address]',
        code: 'VALIDATION_ERROR',
      });
      t.deepEqual(calls(), [(before[0] ?? 0) + 1, before[1], before[2]]);
    });
  }
}

function calls(): (number | undefined)[] {
  return stack.modelServers.map((server) => server.calls().length);
}

test.serial('the answer has its usage also where the backend reports none, whole and streamed', async (t) => {
  for (const server of stack.modelServers) server.fail({ noUsage: true });
  const whole = (await (await post(false)).json()) as { usage?: unknown };
  counted(t, whole.usage);
  const body = await (await post(true, { stream_options: { include_usage: true } })).text();
  const events = streamEvents(body) as { choices?: unknown[]; usage?: unknown }[]; // and [DONE] at the end
  t.is(body.slice(-'data: [DONE]\n\n'.length), 'data: [DONE]\n\n');
  t.deepEqual(events.at(-2)?.choices, []);
  t.deepEqual(events.at(-2)?.usage, whole.usage);
  const unasked = await (await post(true)).text();
  t.false(unasked.includes('usage'));
});

function counted(t: ExecutionContext, usage: unknown): void {
  const tokens = usage as Record<string, number>; // looked into right here
  t.true((tokens.prompt_tokens ?? 0) >= 10 && (tokens.prompt_tokens ?? 0) <= 60, JSON.stringify(tokens));
  t.true((tokens.completion_tokens ?? 0) >= 30 && (tokens.completion_tokens ?? 0) <= 200, JSON.stringify(tokens));
  t.is(tokens.total_tokens, (tokens.prompt_tokens ?? 0) + (tokens.completion_tokens ?? 0));
}

test.serial('after all of this every backend is as good as before, and nothing is left running', async (t) => {
  t.deepEqual((await ask(false)).ending, answer);
  t.deepEqual((await ask(true)).ending, answer);
  for (const server of stack.modelServers) {
    await Promise.all(
      server.calls().map(({ id }) => server.waitForCall((call) => call.id === id && call.state !== 'running')),
    );
  }
  const metrics = await (await fetch(`${stack.workers[0]?.operationsUrl}/metrics`)).text();
  t.regex(metrics, /^svc_jobs_running\{pool="default"\} 0$/m);
  t.is(stack.workers[0]?.process.errors(), '');
});
