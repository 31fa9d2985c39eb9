import { mock } from 'node:test';
import test from 'ava';
import { createWaitingRequests, type Whereabouts } from '../../../ingress/replies/waiting-requests.ts';
import { ApiError, packError } from '../../../shared/errors.ts';
import type { Reply, ReplyContent } from '../../../shared/replies.ts';

// One clock for all: each test has it to itself from its first line to its last, and none waits for anything in between.
mock.timers.enable({ apis: ['setTimeout'] });

const usage = { promptTokens: 1, completionTokens: 2, estimated: false };
const started = { kind: 'started', data: { control: 'svc:control:w1' } } as const;
const startedElsewhere = { kind: 'started', data: { control: 'svc:control:w2' } } as const;
const text = (data: string): ReplyContent => ({ kind: 'chunk', data });
const end: ReplyContent = { kind: 'end', data: { body: '{}', usage } };

function createSubject() {
  const cancelled: Whereabouts[] = [];
  const requests = createWaitingRequests({
    cancel: ({ requestId, pool, control }) => cancelled.push({ requestId, pool, control }),
  });
  const expect = (requestId = 'req_1') =>
    requests.expect({ requestId, pool: 'default', queueMs: 30_000, requestMs: 600_000 });
  const say = (content: ReplyContent, sequence: number, run = 1, request = 'req_1') =>
    requests.deliver({ request, run, sequence, ...content } as Reply); // content and envelope make a reply
  return { requests, cancelled, expect, say };
}

async function failureOf(next: Promise<unknown>): Promise<ApiError> {
  const error = await next.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (error instanceof ApiError) return error;
  throw new Error('there was no failure for clients');
}

const queued = { requestId: 'req_1', pool: 'default', control: undefined };
const running = { ...queued, control: 'svc:control:w1' };

test.serial('hands a reply to whoever waits, and is done with it at its end', async (t) => {
  const { requests, cancelled, expect, say } = createSubject();
  const reply = expect();
  t.is(requests.count(), 1);
  say(started, 0);
  say(text('a'), 1);
  say(text('b'), 2);
  say(end, 3);
  t.is(requests.count(), 0);
  t.deepEqual(await reply.next(), { kind: 'chunk', text: 'ab' });
  t.deepEqual(await reply.next(), { kind: 'end', body: '{}', usage });
  mock.timers.tick(600_000);
  reply.abandon();
  t.deepEqual(cancelled, []);
});

test.serial('hands each reply to its own request', async (t) => {
  const { expect, say } = createSubject();
  const [one, other] = [expect('req_1'), expect('req_2')];
  say(started, 0, 1, 'req_2');
  say(text('other'), 1, 1, 'req_2');
  say(started, 0, 1, 'req_1');
  say(text('one'), 1, 1, 'req_1');
  t.deepEqual(await one.next(), { kind: 'chunk', text: 'one' });
  t.deepEqual(await other.next(), { kind: 'chunk', text: 'other' });
});

test.serial('a failure of the worker reaches the client as it was', async (t) => {
  const { requests, cancelled, expect, say } = createSubject();
  const reply = expect();
  const failure = new ApiError('UPSTREAMS_EXHAUSTED', 'Gone.', { fields: { tier: 'guest', attempted: ['a'] } });
  say({ kind: 'error', data: packError(failure) }, 0);
  t.like(await failureOf(reply.next()), { code: 'UPSTREAMS_EXHAUSTED', fields: { tier: 'guest', attempted: ['a'] } });
  t.is(requests.count(), 0);
  t.deepEqual(cancelled, []);
});

test.serial('what nobody started within the queue time and a second is 503, and taken out of its queue', async (t) => {
  const { requests, cancelled, expect } = createSubject();
  const reply = expect();
  mock.timers.tick(30_999);
  t.is(requests.count(), 1);
  mock.timers.tick(1);
  t.is(requests.count(), 0);
  const error = await failureOf(reply.next());
  t.is(error.code, 'SERVICE_UNAVAILABLE');
  t.is(error.retryAfterMs, 5_000);
  t.deepEqual(cancelled, [queued]);
});

test.serial(
  'what was started in time may take until its deadline, which is 504 and cancels it at its worker',
  async (t) => {
    const { requests, cancelled, expect, say } = createSubject();
    const reply = expect();
    mock.timers.tick(30_500);
    say(started, 0);
    mock.timers.tick(600_000 - 30_500 - 1);
    t.is(requests.count(), 1);
    mock.timers.tick(1);
    t.is((await failureOf(reply.next())).code, 'DEADLINE_EXCEEDED');
    t.deepEqual(cancelled, [running]);
  },
);

test.serial('a client that leaves cancels its job, in the queue or at its worker, once', async (t) => {
  const { cancelled, expect, say } = createSubject();
  const waits = expect();
  waits.abandon();
  waits.abandon();
  t.deepEqual(cancelled, [queued]);
  const runs = expect();
  say(started, 0);
  runs.abandon();
  t.deepEqual(cancelled, [queued, running]);
  t.is((await failureOf(runs.next())).code, 'REQUEST_TIMEOUT');
});

test.serial('a job that starts after its request was given up is cancelled at its worker', (t) => {
  const { cancelled, expect, say } = createSubject();
  expect().abandon();
  say(started, 0);
  say(text('to nobody'), 1);
  say(end, 2);
  t.deepEqual(cancelled, [queued, { ...running, pool: undefined }]);
});

test.serial('a hole before any text is 503, one after it an interruption, and either cancels', async (t) => {
  const { requests, cancelled, expect, say } = createSubject();
  const early = expect();
  say(started, 0);
  say(text('b'), 2);
  t.is((await failureOf(early.next())).code, 'SERVICE_UNAVAILABLE');
  const late = expect();
  say(started, 0);
  say(text('a'), 1);
  say(text('c'), 3);
  t.deepEqual(await late.next(), { kind: 'chunk', text: 'a' });
  t.is((await failureOf(late.next())).code, 'UPSTREAM_INTERRUPTED');
  t.deepEqual(cancelled, [running, running]);
  t.is(requests.count(), 0);
});

test.serial('another worker that begins anew after text is an interruption, and is cancelled', async (t) => {
  const { cancelled, expect, say } = createSubject();
  const reply = expect();
  say(started, 0);
  say(text('a'), 1);
  say(startedElsewhere, 0, 2);
  t.deepEqual(await reply.next(), { kind: 'chunk', text: 'a' });
  t.is((await failureOf(reply.next())).code, 'UPSTREAM_INTERRUPTED');
  t.deepEqual(cancelled, [{ ...running, control: 'svc:control:w2' }]);
});

test.serial('another worker that begins anew before any text is followed, and cancelled where it is', async (t) => {
  const { cancelled, expect, say } = createSubject();
  const reply = expect();
  say(started, 0);
  say(startedElsewhere, 0, 2);
  say(text('late'), 1, 1);
  say(text('mine'), 1, 2);
  t.deepEqual(await reply.next(), { kind: 'chunk', text: 'mine' });
  reply.abandon();
  t.deepEqual(cancelled, [{ ...running, control: 'svc:control:w2' }]);
});

test.serial('a client more than 1 MiB behind is cut after what it can still read, and its job cancelled', async (t) => {
  const { requests, cancelled, expect, say } = createSubject();
  const reply = expect();
  say(started, 0);
  say(text('x'.repeat(1_048_576)), 1);
  t.is(requests.count(), 1);
  say(text('y'), 2);
  t.is(requests.count(), 0);
  t.deepEqual(cancelled, [running]);
  t.deepEqual(await reply.next(), { kind: 'chunk', text: `${'x'.repeat(1_048_576)}y` });
  t.is((await failureOf(reply.next())).code, 'UPSTREAM_INTERRUPTED');
});

test.serial('when the stream of replies is lost, all who wait now fail and nobody who comes later', async (t) => {
  const { requests, cancelled, expect, say } = createSubject();
  const replies = ['req_1', 'req_2', 'req_3'].map((requestId) => expect(requestId));
  say(started, 0, 1, 'req_2');
  const lost = new ApiError('SERVICE_UNAVAILABLE', 'The answer was lost on its way.');
  requests.failAll(lost);
  for (const reply of replies) t.is(await failureOf(reply.next()), lost);
  t.is(cancelled.length, 3);
  t.is(requests.count(), 0);
  const later = expect('req_4');
  say(started, 0, 1, 'req_4');
  say(end, 1, 1, 'req_4');
  t.like(await later.next(), { kind: 'end' });
});

test.serial('once closed, who waits fails and so does whoever comes later', async (t) => {
  const { requests, cancelled, expect } = createSubject();
  const reply = expect();
  const closed = new ApiError('SERVICE_UNAVAILABLE', 'The service is shutting down.');
  requests.close(closed);
  t.is(await failureOf(reply.next()), closed);
  t.is(cancelled.length, 1);
  t.is(
    t.throws(() => expect('req_2')),
    closed,
  );
  t.is(requests.count(), 0);
});

test.serial('a reply for nobody is dropped', (t) => {
  const { requests, cancelled, say } = createSubject();
  say(text('a'), 1);
  say(end, 2);
  t.is(requests.count(), 0);
  t.deepEqual(cancelled, []);
});
