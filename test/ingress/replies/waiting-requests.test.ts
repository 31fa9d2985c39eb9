import { mock } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import type { DeliveredTokens } from '../../../ingress/limits/settle-interrupted.ts';
import type { QueuePlace } from '../../../ingress/queue/queue-bounds.ts';
import type { JobLocation } from '../../../ingress/replies/waiting-request.ts';
import { createWaitingRequests } from '../../../ingress/replies/waiting-requests.ts';
import { ApiError } from '../../../shared/errors.ts';
import type { HeldClaim } from '../../../shared/jobs/idempotency.ts';
import { packError, type Reply, type ReplyContent } from '../../../shared/jobs/replies.ts';
import type { ReleaseAnswer } from '../../../shared/limits/release.ts';
import { createAnswerBudget } from '../../../shared/process/answer-budget.ts';
import { lostReport } from '../../support/limits-side.ts';

// One clock for all tests: each test runs from its first to its last line without another one, and waits for nothing in between.
mock.timers.enable({ apis: ['setTimeout'] });

const usage = { promptTokens: 1, completionTokens: 2, cachedTokens: 0, estimated: false };
const started = { kind: 'started', data: { control: 'svc:control:w1', queueMs: 5 } } as const;
const startedElsewhere = { kind: 'started', data: { control: 'svc:control:w2', queueMs: 5 } } as const;
const text = (data: string, tokens = 1): ReplyContent => ({ kind: 'chunk', data, tokens });
const end: ReplyContent = { kind: 'end', data: { body: '{}', usage } };

/** `released` is the result of releasing a lease; an error if Redis is unavailable. */
function createSubject({ released = 'released' }: { released?: ReleaseAnswer | Error } = {}) {
  const cancelled: JobLocation[] = [];
  const takenBack: string[] = [];
  const settled: ({ requestId: string } & DeliveredTokens)[] = [];
  const left: string[] = [];
  const taken: string[] = [];
  const disconnected: string[] = [];
  const answers = createAnswerBudget({ bytesMax: 2 * 1_048_576 });
  const queued: { ms: number; isTaken: boolean }[] = [];
  const requests = createWaitingRequests({
    cancel: ({ requestId, model, control }) => cancelled.push({ requestId, model, control }),
    async release({ requestId }) {
      takenBack.push(requestId);
      if (released instanceof Error) throw released;
      return released;
    },
    settleInterrupted: ({ requestId }, delivered) => settled.push({ requestId, ...delivered }),
    reportTaken: (control, { request, bytes }) => taken.push(`${control} ${request} ${bytes}`),
    answers,
  });
  const notedReleased: string[] = [];
  const expect = (requestId = 'req_1', replyTo = 'stream-1', claim?: HeldClaim) =>
    requests.expect({
      replyTo,
      lease: {
        ...lease,
        requestId,
        ...(claim && { claim }),
        onReleased: () => notedReleased.push(requestId),
      },
      model: 'small-chat',
      queueMs: 30_000,
      requestMs: 600_000,
      place: placeThat(() => left.push(requestId)),
      onQueued: (waited) => queued.push(waited),
      disconnect: () => disconnected.push(requestId),
    });
  const say = (content: ReplyContent, sequence: number, run = 1, request = 'req_1') =>
    requests.deliver({ request, run, sequence, ...content } as Reply); // content and envelope make a reply
  return {
    taken,
    disconnected,
    answers,
    requests,
    cancelled,
    takenBack,
    notedReleased,
    settled,
    left,
    queued,
    expect,
    say,
  };
}

/** `leave` can be called repeatedly, and counts once. */
function placeThat(leave: () => void): QueuePlace {
  let left = false;
  return {
    latestTurn: { turn: 0 },
    queued() {},
    leave() {
      if (!left) leave();
      left = true;
    },
  };
}

async function failureOf(next: Promise<unknown>): Promise<ApiError> {
  const error = await next.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (error instanceof ApiError) return error;
  throw new Error('there was no failure for clients');
}

const admission = { admittedAt: 0, deadline: 600_000, overage: false };
const lease = { account: 'user:alice', requestId: 'req_1', report: lostReport, promptTokens: 10, admission };

const queued = { requestId: 'req_1', model: 'small-chat', control: undefined };
const running = { ...queued, control: 'svc:control:w1' };

test.serial('delivers a reply to the waiting request, and forgets the request at its end', async (t) => {
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

test.serial(
  'the queue time of a request is reported once: as its worker says, else the time until its first entry',
  (t) => {
    const { queued, requests, expect, say } = createSubject();
    expect('req_1');
    say({ kind: 'started', data: { control: 'svc:control:w1', queueMs: 77 } }, 0, 1, 'req_1');
    say(end, 1, 1, 'req_1');
    t.deepEqual(queued, [{ ms: 77, isTaken: true }]);
    expect('req_2');
    say(end, 0, 1, 'req_2');
    t.is(queued.length, 2);
    t.true(Number.isInteger(queued[1]?.ms) && queued[1]?.isTaken);
    expect('req_3');
    t.is(queued.length, 2, 'it waits');
    requests.failStream('stream-1', new ApiError('SERVICE_UNAVAILABLE', 'Gone.'));
    t.is(queued.length, 2, 'no worker has taken it');
  },
);

test.serial('the oldest request of each model is the one that has waited longest without a start', (t) => {
  const { requests, expect, say } = createSubject();
  t.deepEqual([...requests.oldest()], []);
  const first = expect('req_1');
  while ((requests.oldest().get('small-chat') ?? 0) < 2); // milliseconds
  expect('req_2');
  t.true((requests.oldest().get('small-chat') ?? 0) >= 2);
  first.abandon();
  expect('req_3');
  say(started, 0, 1, 'req_2');
  say(started, 0, 1, 'req_3');
  t.deepEqual([...requests.oldest()], []);
});

test.serial('delivers each reply to its request', async (t) => {
  const { expect, say } = createSubject();
  const [one, other] = [expect('req_1'), expect('req_2')];
  say(started, 0, 1, 'req_2');
  say(text('other'), 1, 1, 'req_2');
  say(started, 0, 1, 'req_1');
  say(text('one'), 1, 1, 'req_1');
  t.deepEqual(await one.next(), { kind: 'chunk', text: 'one' });
  t.deepEqual(await other.next(), { kind: 'chunk', text: 'other' });
});

test.serial('a failure of the worker reaches the client unchanged', async (t) => {
  const { requests, cancelled, expect, say } = createSubject();
  const reply = expect();
  const failure = new ApiError('UPSTREAMS_EXHAUSTED', 'Gone.', { fields: { tier: 'guest', attempted: ['a'] } });
  say({ kind: 'error', data: packError(failure) }, 0);
  t.like(await failureOf(reply.next()), { code: 'UPSTREAMS_EXHAUSTED', fields: { tier: 'guest', attempted: ['a'] } });
  t.is(requests.count(), 0);
  t.deepEqual(cancelled, []);
});

test.serial(
  'a request that did not start within the queue time and a second is 503, released and removed from its queue',
  async (t) => {
    const { requests, cancelled, takenBack, queued: waits, expect } = createSubject();
    const reply = expect();
    mock.timers.tick(30_999);
    t.is(requests.count(), 1);
    mock.timers.tick(1);
    await nextTurn();
    t.is(requests.count(), 0);
    const error = await failureOf(reply.next());
    t.is(error.code, 'SERVICE_UNAVAILABLE');
    t.is(error.retryAfterMs, 5_000);
    t.deepEqual(takenBack, ['req_1']);
    t.deepEqual(cancelled, [queued]);
    t.deepEqual(
      waits.map(({ isTaken }) => isTaken),
      [false],
    );
  },
);

test.serial(
  'a request that started in time may run until its deadline and a second; then it is 504 and cancelled at its worker',
  async (t) => {
    const { requests, cancelled, expect, say } = createSubject();
    const reply = expect();
    mock.timers.tick(30_500);
    say(started, 0);
    mock.timers.tick(601_000 - 30_500 - 1);
    t.is(requests.count(), 1, 'its worker ends it at the deadline, and reports its usage');
    t.deepEqual(cancelled, []);
    mock.timers.tick(1);
    t.is((await failureOf(reply.next())).code, 'DEADLINE_EXCEEDED');
    t.deepEqual(cancelled, [running]);
  },
);

test.serial('a request that started at the last moment is waited for, although its queue time is over', async (t) => {
  const { cancelled, expect, say } = createSubject({ released: 'started' });
  const reply = expect();
  mock.timers.tick(31_000);
  await nextTurn();
  say(started, 0);
  say(text('a'), 1);
  t.deepEqual(await reply.next(), { kind: 'chunk', text: 'a' });
  t.deepEqual(cancelled, []);
});

test.serial('a request that has ended is not waited for until its deadline', async (t) => {
  const { requests, expect } = createSubject({ released: 'ended' });
  const reply = expect();
  mock.timers.tick(31_000);
  await nextTurn();
  t.is(requests.count(), 1, 'its last reply may be in transit');
  mock.timers.tick(1_000);
  t.is((await failureOf(reply.next())).code, 'SERVICE_UNAVAILABLE');
  t.is(requests.count(), 0);
});

test.serial('if it is unknown whether a request has started, its client does not wait', async (t) => {
  const { cancelled, expect, say } = createSubject({ released: new Error('Redis is unavailable') });
  const reply = expect();
  mock.timers.tick(31_000);
  await nextTurn();
  t.is((await failureOf(reply.next())).code, 'SERVICE_UNAVAILABLE');
  say(started, 0);
  t.deepEqual(cancelled, [running], 'a worker that starts it later receives the cancellation');
});

test.serial('a request that started during the outage is waited for', async (t) => {
  const { cancelled, expect, say } = createSubject({ released: new Error('Redis is unavailable') });
  const reply = expect();
  mock.timers.tick(31_000);
  say(started, 0);
  await nextTurn();
  say(text('a'), 1);
  t.deepEqual(await reply.next(), { kind: 'chunk', text: 'a' });
  t.deepEqual(cancelled, []);
});

test.serial('a client that disconnects cancels its job once, in the queue or at its worker', async (t) => {
  const { cancelled, takenBack, expect, say } = createSubject();
  const waits = expect();
  waits.abandon();
  waits.abandon();
  await nextTurn();
  t.deepEqual(cancelled, [queued]);
  t.deepEqual(takenBack, ['req_1']);
  const runs = expect();
  say(started, 0);
  runs.abandon();
  t.deepEqual(cancelled, [queued, running]);
  t.is((await failureOf(runs.next())).code, 'REQUEST_TIMEOUT');
});

test.serial('a request whose client left is kept until the last reply of its worker', async (t) => {
  const { requests, cancelled, settled, expect, say } = createSubject();
  const reply = expect();
  say(started, 0);
  say(text('a', 7), 1);
  reply.abandon();
  say(text('b', 9), 2);
  t.is(requests.count(), 0, 'no client waits');
  say({ kind: 'interrupted', data: { promptTokens: 5 } }, 0, 2);
  t.deepEqual(
    settled,
    [{ requestId: 'req_1', run: 2, completionTokens: 9, promptTokens: 5 }],
    'its worker died, and it must be settled',
  );
  t.deepEqual(cancelled, [running]);
});

test.serial('a job that starts while its client leaves is cancelled as soon as its worker is known', async (t) => {
  const { cancelled, expect, say } = createSubject({ released: 'started' });
  expect().abandon();
  await nextTurn();
  t.deepEqual(cancelled, []);
  say(started, 0);
  t.deepEqual(cancelled, [running]);
});

const claim: HeldClaim = {
  ...{ idempotencyKey: 'order-17', bodyMarks: ['mark'], isStream: false },
  answerBytesMax: 1_048_576,
};
const lost = new ApiError('SERVICE_UNAVAILABLE', 'Gone.');
const departures: [title: string, leave: (subject: ReturnType<typeof createSubject>) => void][] = [
  ['its stream is lost', ({ requests }) => requests.failStream('stream-1', lost)],
  ['the service stops', ({ requests }) => requests.close(lost)],
];

for (const [title, leave] of departures) {
  for (const isStarted of [false, true]) {
    const when = isStarted ? 'while it runs' : 'before its start';
    test.serial(`a request with an idempotency key fails and its job continues: ${title} ${when}`, async (t) => {
      const subject = createSubject();
      const { cancelled, takenBack, expect, say } = subject;
      const reply = expect('req_1', 'stream-1', claim);
      if (isStarted) say(started, 0);
      leave(subject);
      t.is(await failureOf(reply.next()), lost);
      if (!isStarted) say(started, 0);
      say(end, 1);
      await reply.ended;
      t.deepEqual([...cancelled, ...takenBack], []);
    });
  }
}

test.serial('a client that leaves a request with an idempotency key cancels nothing, a deadline does', async (t) => {
  const { cancelled, takenBack, expect, say } = createSubject();
  const reply = expect('req_1', 'stream-1', claim);
  reply.abandon();
  say(started, 0);
  await nextTurn();
  t.deepEqual([...cancelled, ...takenBack], []);
  mock.timers.tick(601_000);
  t.deepEqual(cancelled, [running]);
});

test.serial(
  'a client that leaves a request whose answer is not kept cancels it, although it has an idempotency key',
  (t) => {
    const { cancelled, expect, say } = createSubject();
    const reply = expect('req_1', 'stream-1', { ...claim, answerBytesMax: 0 });
    say(started, 0);
    reply.abandon();
    t.deepEqual(cancelled, [running]);
  },
);

test.serial(
  'a request with an idempotency key that no worker starts in time is released, and its key is named',
  async (t) => {
    const { takenBack, requests, expect } = createSubject();
    expect('req_1', 'stream-1', claim).abandon();
    mock.timers.tick(31_000);
    await nextTurn();
    t.deepEqual(takenBack, ['req_1']);
    t.is(requests.count(), 0);
  },
);

for (const [released, isReleased] of [
  ['released', true],
  ['started', false],
] as const) {
  test.serial(
    `a request with an idempotency key that could not be queued is taken back, unless it has started: ${released}`,
    async (t) => {
      const { requests, cancelled, takenBack, expect, say } = createSubject({ released });
      const reply = expect('req_1', 'stream-1', claim);
      reply.failQueueing(lost);
      t.is(await failureOf(reply.next()), lost);
      t.deepEqual(takenBack, ['req_1']);
      t.deepEqual([requests.count(), cancelled], isReleased ? [0, [queued]] : [1, []]);
      if (isReleased) return;
      say(started, 0);
      say(end, 1);
      t.deepEqual([requests.count(), cancelled], [0, []]);
    },
  );
}

test.serial('an answered request is not cancelled when its connection closes', async (t) => {
  const { cancelled, takenBack, expect, say } = createSubject();
  const reply = expect();
  say(started, 0);
  say(end, 1);
  reply.abandon();
  await nextTurn();
  t.deepEqual([...cancelled, ...takenBack], []);
});

test.serial('a job that starts after its request was given up is cancelled at its worker', async (t) => {
  const { cancelled, expect, say } = createSubject();
  expect().abandon();
  await nextTurn();
  say(started, 0);
  say(text('to no request'), 1);
  say(end, 2);
  t.deepEqual(cancelled, [queued, { ...running, model: undefined }]);
});

test.serial('a gap before any text is 503, a gap after text is an interruption, and both cancel', async (t) => {
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

test.serial('another worker that starts again after text is an interruption, settled and cancelled', async (t) => {
  const { cancelled, settled, expect, say } = createSubject();
  const reply = expect();
  say(started, 0);
  say(text('a', 3), 1);
  say(startedElsewhere, 0, 2);
  t.deepEqual(await reply.next(), { kind: 'chunk', text: 'a' });
  t.is((await failureOf(reply.next())).code, 'UPSTREAM_INTERRUPTED');
  t.deepEqual(settled, [{ requestId: 'req_1', run: 2, completionTokens: 3, promptTokens: undefined }]);
  t.deepEqual(cancelled, [{ ...running, control: 'svc:control:w2' }]);
});

test.serial('text that was sent and did not arrive is a lost answer, and its request is settled', async (t) => {
  const { requests, settled, expect, say } = createSubject();
  const reply = expect();
  say(started, 0);
  say({ kind: 'interrupted', data: { promptTokens: 5 } }, 0, 2);
  t.is((await failureOf(reply.next())).code, 'SERVICE_UNAVAILABLE', 'a frame must not come before its stream');
  t.deepEqual(settled, [{ requestId: 'req_1', run: 2, completionTokens: 0, promptTokens: 5 }]);
  t.is(requests.count(), 0);
});

test.serial('another worker that starts again before any text is followed, and cancelled there', async (t) => {
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

test.serial(
  'a client more than 1 MiB behind gets the text so far and is disconnected, and its job is cancelled',
  async (t) => {
    const { requests, cancelled, expect, say } = createSubject();
    const reply = expect();
    say(started, 0);
    say(text('x'.repeat(1_048_576)), 1);
    t.is(requests.count(), 1);
    say(text('y'), 2);
    t.is(requests.count(), 0);
    t.deepEqual(cancelled, [running]);
    t.deepEqual(await reply.next(), { kind: 'chunk', text: 'x'.repeat(1_048_576) });
    t.is((await failureOf(reply.next())).code, 'UPSTREAM_INTERRUPTED');
  },
);

test.serial('when a stream of replies is lost, all its requests fail, and others do not', async (t) => {
  const { requests, cancelled, expect, say } = createSubject();
  const replies = ['req_1', 'req_2', 'req_3'].map((requestId) => expect(requestId));
  const other = expect('req_5', 'stream-2');
  say(started, 0, 1, 'req_2');
  const lost = new ApiError('SERVICE_UNAVAILABLE', 'The answer was lost on its way.');
  t.true(requests.useStream('stream-1'));
  requests.failStream('stream-1', lost);
  for (const reply of replies) t.is(await failureOf(reply.next()), lost);
  await nextTurn();
  t.is(cancelled.length, 3);
  t.is(requests.count(), 1);
  t.deepEqual(['stream-1', 'stream-2'].map(requests.useStream), [false, true]);
  say(started, 0, 1, 'req_5');
  say(end, 1, 1, 'req_5');
  t.like(await other.next(), { kind: 'end' });
  const later = expect('req_4');
  say(started, 0, 1, 'req_4');
  say(end, 1, 1, 'req_4');
  t.like(await later.next(), { kind: 'end' });
});

test.serial('requests that no worker has started can be failed by account and model, and are released', async (t) => {
  const { requests, takenBack, expect, say } = createSubject();
  const [queued, started] = [expect('req_1'), expect('req_2')];
  say({ kind: 'started', data: { control: 'svc:control:w1', queueMs: 1 } }, 0, 1, 'req_2');
  const unavailable = new ApiError('SERVICE_UNAVAILABLE', 'Retry.');
  requests.failQueued(({ account }) => account !== lease.account, unavailable);
  t.is(requests.count(), 2, 'another account');
  requests.failQueued(({ account, model }) => account === lease.account && model === 'small-chat', unavailable);
  t.is(await failureOf(queued.next()), unavailable);
  await nextTurn();
  t.deepEqual(takenBack, ['req_1']);
  say(end, 1, 1, 'req_2');
  t.like(await started.next(), { kind: 'end' });
});

test.serial('after close, waiting and later requests fail', async (t) => {
  const { requests, cancelled, takenBack, expect } = createSubject();
  const reply = expect();
  const closed = new ApiError('SERVICE_UNAVAILABLE', 'The service is shutting down.');
  requests.close(closed);
  t.is(await failureOf(reply.next()), closed);
  await nextTurn();
  t.is(cancelled.length, 1);
  t.is(
    t.throws(() => expect('req_2')),
    closed,
  );
  t.deepEqual(takenBack, ['req_1', 'req_2'], 'a request admitted by then is released');
  t.is(requests.count(), 0);
});

const lastWords: [title: string, content: ReplyContent, sequence: number][] = [
  ['started', started, 0],
  ['an entry after a gap', text('b'), 2],
  ['a failure', { kind: 'error', data: packError(new ApiError('VALIDATION_ERROR', 'no')) }, 0],
  ['interrupted', { kind: 'interrupted', data: { promptTokens: 5 } }, 0],
];

for (const [title, content, sequence] of lastWords) {
  test.serial(`a request no longer counts as waiting after the first entry of its worker: ${title}`, (t) => {
    const { left, expect, say } = createSubject();
    expect();
    t.deepEqual(left, []);
    say(content, sequence);
    t.deepEqual(left, ['req_1']);
  });
}

const ends: [title: string, end: (subject: ReturnType<typeof createSubject>) => unknown][] = [
  ['its client left', ({ expect }) => expect().abandon()],
  ['the queue time is over', ({ expect }) => [expect(), mock.timers.tick(31_000)]],
  [
    'its stream is lost',
    ({ requests, expect }) => [expect(), requests.failStream('stream-1', new ApiError('SERVICE_UNAVAILABLE', 'x'))],
  ],
  ['the service stops', ({ requests, expect }) => [expect(), requests.close(new ApiError('SERVICE_UNAVAILABLE', 'x'))]],
];

for (const [title, end] of ends) {
  test.serial(`a request no longer counts as waiting after its job was cancelled: ${title}`, async (t) => {
    const subject = createSubject();
    end(subject);
    await nextTurn();
    t.deepEqual(subject.left, ['req_1']);
  });
}

test.serial('a request of unknown state counts as waiting until no worker may start it any more', async (t) => {
  const { left, expect } = createSubject({ released: new Error('Redis is unavailable') });
  expect().abandon();
  await nextTurn();
  t.deepEqual(left, [], 'a worker can still start it');
  mock.timers.tick(30_999);
  await nextTurn();
  t.deepEqual(left, []);
  mock.timers.tick(1);
  await nextTurn();
  t.deepEqual(left, ['req_1']);
});

test.serial('a reply without a request is dropped', (t) => {
  const { requests, cancelled, say } = createSubject();
  say(text('a'), 1);
  say(end, 2);
  t.is(requests.count(), 0);
  t.deepEqual(cancelled, []);
});

const half = 524_288;
const piece = (bytes = half): ReplyContent => ({ kind: 'piece', data: 'x'.repeat(bytes), bytes: 8 * half });

test.serial(
  'while there is no room for what a client has not read, its worker is not told that it reads',
  async (t) => {
    const { answers, expect, say, taken } = createSubject();
    const [one, other] = [expect(), expect('req_2')];
    say(started, 0);
    say(piece(), 1);
    say(started, 0, 1, 'req_2');
    // Half a megabyte is a quarter of the budget. One answer may go on, and it is the older one.
    say(piece(), 1, 1, 'req_2');
    say(piece(), 2, 1, 'req_2');
    await other.next();
    other.taken(half, 8 * half);
    t.deepEqual(taken, []);
    await one.next();
    one.taken(half, 8 * half);
    t.deepEqual(taken, [`svc:control:w1 req_1 ${half}`]);
    one.abandon();
    t.deepEqual(taken, [`svc:control:w1 req_1 ${half}`, `svc:control:w1 req_2 ${half}`]);
    other.abandon();
    t.is(answers.bytesHeld(), 0);
  },
);

test.serial(
  'pieces for a client that is gone are dropped, and the worker of an answer that is kept can send more',
  (t) => {
    const { answers, expect, say, taken, cancelled } = createSubject();
    const reply = expect('req_1', 'stream-1', claim);
    say(started, 0);
    say(piece(), 1);
    reply.abandon();
    t.is(answers.bytesHeld(), 0);
    say(piece(), 2);
    say(piece(), 3);
    t.is(answers.bytesHeld(), 0);
    t.deepEqual(
      taken,
      [1, 2, 3].map((pieces) => `svc:control:w1 req_1 ${pieces * half}`),
    );
    t.deepEqual(cancelled, []);
  },
);

test.serial(
  'a request that no worker starts in time, and one that comes too late, are noted as released',
  async (t) => {
    const { requests, notedReleased, expect } = createSubject();
    const reply = expect('req_1');
    mock.timers.tick(31_000);
    t.is((await failureOf(reply.next())).code, 'SERVICE_UNAVAILABLE');
    t.deepEqual(notedReleased, ['req_1']);
    requests.close(new ApiError('SERVICE_UNAVAILABLE', 'The service is shutting down.'));
    t.throws(() => expect('req_2'));
    await nextTurn();
    t.deepEqual(notedReleased, ['req_1', 'req_2']);
  },
);

for (const released of ['started', 'ended', new Error('Redis is away')] as const) {
  test.serial(`a request whose release gives ${String(released)} is not noted as released`, async (t) => {
    const { requests, notedReleased, takenBack, expect } = createSubject({ released });
    expect('req_1');
    mock.timers.tick(31_000);
    await nextTurn();
    requests.close(new ApiError('SERVICE_UNAVAILABLE', 'The service is shutting down.'));
    t.true(takenBack.length > 0);
    t.deepEqual(notedReleased, []);
  });
}
