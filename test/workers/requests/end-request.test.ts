import test from 'ava';
import { Registry } from 'prom-client';
import { ApiError } from '../../../shared/errors.ts';
import { createKeptAnswers } from '../../../shared/jobs/idempotency.ts';
import { unchallengedMs } from '../../../shared/jobs/queues.ts';
import type { SettleAnswer, Settlement } from '../../../shared/limits/settle.ts';
import { createRunLedger } from '../../../workers/failover/run.ts';
import { createWorkerMetrics } from '../../../workers/metrics.ts';
import type { ReplySender } from '../../../workers/replies/send-reply.ts';
import { createEndRequest } from '../../../workers/requests/end-request.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { recordedSpan } from '../../support/recorded-span.ts';
import { jobFor } from '../../support/worker-side.ts';

const usage = { promptTokens: 10, completionTokens: 5, cachedTokens: 4, estimated: false };
const answered = { outcome: 'completed', usage, answer: { body: '{}', usage } } as const;
const failed = { outcome: 'failed', error: new ApiError('INTERNAL_ERROR', 'No.') } as const;

type World = { settled?: SettleAnswer | Error; oneConnection?: boolean; runsForMs?: number };

/** Ends a run of the given duration. `events`: the calls and replies, in order. */
function createSubject({ settled = 'settled', oneConnection = true, runsForMs = 100 }: World = {}) {
  const events: string[] = [];
  let now = 0;
  const settlements: Settlement[] = [];
  const settling = Promise.withResolvers<SettleAnswer>();
  const registry = new Registry();
  const endRequest = createEndRequest({
    settle(settlement) {
      events.push('settle');
      settlements.push(settlement);
      return settling.promise;
    },
    oneConnection,
    keptAnswers: createKeptAnswers(['a pepper']),
    metrics: createWorkerMetrics(registry),
    log: recordedLog().log,
    now: () => now,
  });
  const errors: ApiError[] = [];
  const say = (kind: string) => async () => void events.push(kind);
  const reply: ReplySender = {
    started: () => {},
    chunk: say('chunk'),
    end: say('end'),
    async error(error) {
      events.push('error');
      errors.push(error);
    },
    interrupted: say('interrupted'),
  };
  const ledger = createRunLedger({ run: 1, queueWaitMs: 40, now: () => now });
  ledger.beginAttempt('onprem-a')({ outcome: 'failed', rule: 'server-error', status: 500 });
  now = runsForMs;
  const run = { job: jobFor('svc:replies:x', {}), run: 1, taken: 1, takenAt: 0, reply, ledger };
  const answer = () => (settled instanceof Error ? settling.reject(settled) : settling.resolve(settled));
  return { endRequest, run, events, errors, settlements, answer, registry };
}

test('a request is settled before its last reply, and both are sent together', async (t) => {
  const { endRequest, run, events, answer } = createSubject();
  const ending = endRequest(run, answered);
  t.deepEqual(events, ['settle', 'end'], 'without waiting for a result');
  answer();
  await ending;
});

test('if another run may have begun, or replies use another connection, the last reply waits for the settlement', async (t) => {
  for (const world of [{ runsForMs: unchallengedMs }, { oneConnection: false }]) {
    const { endRequest, run, events, answer } = createSubject(world);
    const ending = endRequest(run, answered);
    t.deepEqual(events, ['settle']);
    answer();
    await ending;
    t.deepEqual(events, ['settle', 'end']);
  }
});

const answerBytesMax = 65_536;
const claim = { idempotencyKey: 'order-17', bodyMark: 'mark', answerBytesMax };
const kept = createKeptAnswers(['a pepper']);
const tooLarge = { outcome: 'completed', usage, answer: { body: 'x'.repeat(answerBytesMax + 1), usage } } as const;
const charged = { outcome: 'cancelled', error: new ApiError('REQUEST_TIMEOUT', 'Left.'), usage } as const;

/** How the claim of a request ends with this ending. */
async function claimEndOf(ending: Parameters<ReturnType<typeof createSubject>['endRequest']>[1], held = claim) {
  const { endRequest, run, settlements, errors, answer, registry } = createSubject();
  answer();
  await endRequest({ ...run, job: { ...run.job, claim: held } }, ending);
  const notKept = /^svc_answers_not_kept_total\{endpoint="\/v1\/chat\/completions",reason="size"\} (\d+)$/m;
  const [, tooLong] = notKept.exec(await registry.metrics()) ?? [];
  return { account: run.job.account, settled: settlements[0]?.claim, error: errors[0], tooLong: Number(tooLong) };
}

test('an answer is kept with its settlement, so that only its owner can read it', async (t) => {
  const { account, settled } = await claimEndOf(answered);
  t.like(settled, { ...claim, end: 'kept' });
  const sealed = settled !== undefined && 'answer' in settled ? settled.answer : Buffer.alloc(0);
  const owner = { account, idempotencyKey: claim.idempotencyKey };
  t.deepEqual(kept.open(owner, sealed), { body: Buffer.from('{}'), estimated: false });
  t.is(kept.open({ ...owner, account: 'user:bob' }, sealed), undefined);
});

test('a charge without an answer that can be kept is lost, and a failure without a charge frees the key', async (t) => {
  const longest = { ...tooLarge, answer: { body: 'x'.repeat(answerBytesMax), usage } };
  t.like(await claimEndOf(longest), { settled: { end: 'kept' }, tooLong: 0 });
  t.like(await claimEndOf(tooLarge), { settled: { ...claim, end: 'lost' }, tooLong: 1 });
  const none = { ...claim, answerBytesMax: 0 };
  t.like(await claimEndOf(answered, none), { settled: { end: 'lost' }, tooLong: 0 }, 'a stream, or no room');
  t.like(await claimEndOf({ outcome: 'completed', usage, answer: { usage } }, none), { settled: { end: 'lost' } });
  const { settled, error } = await claimEndOf(charged);
  t.deepEqual(settled, { ...claim, end: 'lost' });
  t.like(error, { code: 'REQUEST_TIMEOUT', message: 'Left.', headers: { 'idempotency-kept': 'false' } });
  const free = await claimEndOf(failed);
  t.deepEqual([free.settled, free.error?.headers], [{ ...claim, end: 'free' }, {}]);
});

test('a request without an idempotency key ends no claim', async (t) => {
  const { endRequest, run, settlements, answer } = createSubject();
  answer();
  await endRequest(run, answered);
  t.is(settlements[0]?.claim, undefined);
});

test('the span of a run has its outcome, and the code of its error', async (t) => {
  for (const [ending, error] of [
    [answered, undefined],
    [failed, 'INTERNAL_ERROR'],
    [charged, 'REQUEST_TIMEOUT'],
  ] as const) {
    const { endRequest, run, answer } = createSubject();
    const { span, ended } = recordedSpan();
    answer();
    await endRequest({ ...run, span }, ending);
    span.end();
    t.like(ended.at(-1), { name: 'request', attributes: { 'svc.outcome': ending.outcome }, error });
  }
});

test('a run that may not settle sends nothing', async (t) => {
  const { endRequest, run, events, answer, registry } = createSubject({ settled: 'refused', runsForMs: 60_000 });
  answer();
  await endRequest(run, answered);
  t.deepEqual(events, ['settle']);
  t.regex(
    await registry.metrics(),
    /svc_settle_failures_total\{endpoint="\/v1\/chat\/completions",reason="refused"\} 1/,
  );
});

test('the client of a lost request gets an error instead of an answer that is not charged', async (t) => {
  const { endRequest, run, events, answer, registry } = createSubject({ settled: 'lost', runsForMs: 60_000 });
  answer();
  await endRequest(run, answered);
  t.deepEqual(events, ['settle', 'error']);
  t.regex(await registry.metrics(), /svc_settle_failures_total\{endpoint="\/v1\/chat\/completions",reason="lost"\} 1/);
});

test('a client gets its answer even if its request could not be settled, and that is counted', async (t) => {
  const { endRequest, run, events, answer, registry } = createSubject({ settled: new Error('ERR'), runsForMs: 60_000 });
  answer();
  await endRequest(run, answered);
  t.deepEqual(events, ['settle', 'end']);
  t.regex(await registry.metrics(), /svc_settle_failures_total\{endpoint="\/v1\/chat\/completions",reason="error"\} 1/);
  t.notRegex(await registry.metrics(), /svc_requests_settled_total\{/);
});

test('the report has the usage and the outcome, and the charge is prompt and completion', async (t) => {
  const { endRequest, run, settlements, answer, registry } = createSubject();
  answer();
  const job = { ...run.job, earlierRuns: [{ run: 1, attempts: [{ run: 1, backend: 'cloud', outcome: 'stopped' }] }] };
  await endRequest({ ...run, job, run: 2 }, answered);
  t.like(settlements[0], { run: 2, settler: 'taking 1', chargedTokens: 15, requestId: job.requestId });
  t.deepEqual(settlements[0]?.report, {
    keyId: job.keyId,
    plan: job.plan,
    model: job.model,
    tier: job.tier,
    endpoint: job.endpoint,
    batch: null,
    promptTokens: 10,
    completionTokens: 5,
    cachedTokens: 4,
    counted: 'reported',
    outcome: 'completed',
    queueWaitMs: 40,
    firstTokenMs: null,
    durationMs: 140,
    attempts: [
      { run: 1, backend: 'cloud', outcome: 'stopped' },
      { run: 1, backend: 'onprem-a', outcome: 'failed', rule: 'server-error', status: 500, durationMs: 0 },
    ],
    endedRuns: [1, 2],
  });
  t.regex(
    await registry.metrics(),
    /svc_requests_settled_total\{endpoint="\/v1\/chat\/completions",outcome="completed",counted="reported"\} 1/,
  );
});

test('a failed request is charged nothing', async (t) => {
  const { endRequest, run, events, settlements, answer } = createSubject();
  answer();
  await endRequest(run, failed);
  t.deepEqual(events, ['settle', 'error']);
  t.like(settlements[0], { chargedTokens: 0, report: { outcome: 'failed', promptTokens: 0, completionTokens: 0 } });
});

test('a failed stream has the status that its client got: 200 once a text was sent, or 10 s have passed', async (t) => {
  const statusOf = async ({
    stream = true,
    isSent = false,
    ...world
  }: World & { stream?: boolean; isSent?: boolean }) => {
    const { endRequest, run, settlements, answer } = createSubject(world);
    answer();
    run.ledger.firstToken();
    if (isSent) run.ledger.sendText();
    await endRequest({ ...run, job: { ...run.job, stream } }, failed);
    return settlements[0]?.report.status;
  };
  t.is(await statusOf({}), 500, 'a token that came, and was not sent');
  t.is(await statusOf({ isSent: true }), 200);
  t.is(await statusOf({ runsForMs: 9_960 }), 500, 'with the 40 ms in the queue');
  t.is(await statusOf({ runsForMs: 9_961 }), 200);
  t.is(await statusOf({ stream: false, runsForMs: 20_000 }), 500);
});
