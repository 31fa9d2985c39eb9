import type { StreamEnding } from '../../shared/endpoints/definition/answer-format.ts';
import { endpointAt } from '../../shared/endpoints/endpoints.ts';
import { ApiError, temporarilyUnavailable, toApiError } from '../../shared/errors.ts';
import { type HeldClaim, keepsAnswer, mayKeepAnswer, notKeptHeader } from '../../shared/jobs/idempotency.ts';
import type { InferenceJob } from '../../shared/jobs/inference-job.ts';
import { type RunProgress, streamStatusHeldMs } from '../../shared/jobs/replies.ts';
import type { SuspensionWatch } from '../../shared/limits/watch-suspensions.ts';
import { queueMsOf } from '../../shared/plan-file/plan-file.ts';
import { type Clock, systemClock } from '../../shared/process/answer-budget.ts';
import { queueAttributes, type Span, traced } from '../../shared/tracing/span.ts';
import { accountSuspended } from '../authentication/check-caller.ts';
import { setHeaders } from '../listener/request-headers.ts';
import type { QueueTurns, RequestQueues } from '../queue/queue-turns.ts';
import { type AppContext, stateOf } from '../request-state.ts';
import type { RequestsToEnd } from '../requests/requests-to-end.ts';
import type { ExpectedReply } from './waiting-request.ts';
import type { WaitingRequests } from './waiting-requests.ts';
import { writeEventStream, writePieces } from './write-answer.ts';

type WhatEndsRequests = {
  suspensions: Pick<SuspensionWatch, 'follow'>;
  requestsToEnd: Pick<RequestsToEnd, 'follow'>;
};

type QueueingParts = {
  queues: RequestQueues;
  queueTurns: Pick<QueueTurns, 'next' | 'taken'>;
  waitingRequests: WaitingRequests;
  /** This ingress's reply stream, undefined while it has none. */
  replyTo: () => string | undefined;
};

/** `heldBackMs`: how long the status of a stream waits for the first event (contract.md#d6-held-status). */
type AnswerParts = WhatEndsRequests & QueueingParts & { heldBackMs?: number; clock?: Clock };

/** Answers an inference request after admission: queues it, waits for the reply, and writes it as one body or as a stream. */
export async function answerCall(ctx: AppContext, parts: AnswerParts): Promise<void> {
  const { heldBackMs = streamStatusHeldMs, clock = systemClock } = parts;
  const { endpoint, stream } = stateOf(ctx, 'call');
  const reply = await enqueue(ctx, parts);
  // The body is in the queue, and no longer held here.
  ctx.state.call = undefined;
  ctx.state.bodyShare?.leave();
  const { claim } = stateOf(ctx, 'lease');
  const unfollow = followEnds(ctx, reply, parts);
  // A request whose answer is kept continues without its client, until its account is suspended, or an operator or its owner ends it.
  if (mayKeepAnswer(claim)) void reply.ended.then(unfollow);
  const leave = () => {
    if (!mayKeepAnswer(claim)) unfollow();
    reply.abandon();
  };
  // Also while the answer is written: a client that disconnects is noticed when its connection ends.
  if (ctx.res.closed) leave();
  else ctx.res.once('close', leave);
  if (stream) {
    const headers = claim === undefined ? {} : notKeptHeader;
    ctx.state.usage = await writeEventStream(ctx, reply, { heldBackMs, ending: endingOf(endpoint), headers, clock });
    return;
  }
  await answerWhole(ctx, reply, endpoint);
}

async function enqueue(ctx: AppContext, parts: QueueingParts): Promise<ExpectedReply> {
  const { queues, queueTurns, waitingRequests, replyTo } = parts;
  const { cost, pool: _, ...call } = stateOf(ctx, 'call');
  // What waits for the reply keeps what the functions below use: never the call, which has the payload.
  const { model } = call;
  const lease = stateOf(ctx, 'lease');
  const { requestId, account, admission, report, claim } = lease;
  const { keyId, plan } = report;
  const planFile = stateOf(ctx, 'planFile');
  const { plans } = planFile;
  const { requestMs } = planFile.timeouts;
  const inFlight = stateOf(ctx, 'inFlight');
  const place = stateOf(ctx, 'place').takeOver();
  const priority = queueTurns.next({ model, plan, plans, inFlight, latest: place.latestTurn });
  const onQueued = ({ ms, isTaken }: { ms: number; isTaken: boolean }) => {
    if (isTaken) queueTurns.taken(model, priority);
    if (!ctx.res.headersSent) ctx.res.setHeader('x-svc-queue-ms', ms);
  };
  const onServed = (known: Partial<RunProgress>) => {
    ctx.state.served = { ...ctx.state.served, ...known };
  };
  const address = replyTo() ?? '';
  const disconnect = () => ctx.res.destroy();
  const reply = waitingRequests.expect({
    lease,
    model,
    replyTo: address,
    queueMs: queueMsOf(planFile, model),
    requestMs,
    place,
    disconnect,
    onQueued,
    onServed,
  });
  try {
    if (address === '') throw temporarilyUnavailable();
    const owner = { requestId, account, keyId, plan, promptEstimate: cost.promptTokens };
    const claimed = claim && { claim: jobClaimOf(claim) };
    const job = { ...owner, ...call, ...admission, replyTo: address, earlierRuns: [], ...claimed };
    await traced(ctx.state.span, sendingTo(call.model), (span) => queues.add(inTrace(job, span), priority));
    place.queued();
  } catch (error) {
    reply.failQueueing(toApiError(error));
    throw error;
  }
  return reply;
}

/** Writes a complete response: as the body of Koa, or piece by piece if it is large. */
async function answerWhole(ctx: AppContext, reply: ExpectedReply, endpoint: string): Promise<void> {
  const first = await reply.next();
  const { claim } = stateOf(ctx, 'lease');
  if (first.kind === 'piece') {
    if (claim !== undefined && !keepsAnswer(first.length, claim)) setHeaders(ctx.res, notKeptHeader);
    ctx.state.usage = await writePieces(ctx, reply, first);
    return;
  }
  if (first.kind !== 'end' || first.body === undefined) throw new Error('a complete answer arrived without its body');
  ctx.state.usage = first.usage;
  const { estimate } = endpointAt(endpoint).answer;
  // Such an answer says how many tokens there are, so its client has to know who counted them.
  if (estimate !== undefined && first.usage.estimated) ctx.res.setHeader('x-svc-estimated', 'true');
  if (claim !== undefined && !keepsAnswer(Buffer.byteLength(first.body), claim)) setHeaders(ctx.res, notKeptHeader);
  ctx.res.setHeader('content-type', 'application/json; charset=utf-8');
  ctx.body = first.body;
}

function jobClaimOf({ idempotencyKey, bodyMarks, answerBytesMax }: HeldClaim): InferenceJob['claim'] {
  return { idempotencyKey, bodyMark: bodyMarks[0], answerBytesMax };
}

/** A worker continues the trace from here. */
function inTrace(job: InferenceJob, span: Span | undefined): InferenceJob {
  return span === undefined ? job : { ...job, trace: span.context() };
}

const sendingTo = (model: string) => ({
  name: `send ${model}`,
  kind: 'producer' as const,
  attributes: queueAttributes('send', model),
});

/**
 * Ends the request if its account is suspended, if an operator ends it, or if its key is revoked with its requests. The returned function
 * unsubscribes.
 */
function followEnds(ctx: AppContext, reply: ExpectedReply, deps: WhatEndsRequests): () => void {
  const { suspensions, requestsToEnd } = deps;
  const { requestId, report } = stateOf(ctx, 'lease');
  const following = [
    suspensions.follow(stateOf(ctx, 'caller'), () => reply.fail(accountSuspended())),
    requestsToEnd.follow(requestId, () => reply.fail(endedByOperator())),
    requestsToEnd.follow(report.keyId, () => reply.fail(endedWithKey())),
  ];
  return () => {
    for (const unfollow of following) unfollow();
  };
}

function endedByOperator(): ApiError {
  return new ApiError('FORBIDDEN', 'An operator has ended this request.');
}

function endedWithKey(): ApiError {
  return new ApiError('FORBIDDEN', 'The API key of this request was revoked, and its requests were ended.');
}

function endingOf(endpoint: string): StreamEnding {
  const { stream } = endpointAt(endpoint).answer;
  if (stream === undefined) throw new Error(`answers of ${endpoint} cannot be streamed`);
  return stream.ending();
}
