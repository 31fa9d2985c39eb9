import type { ParameterizedContext } from 'koa';
import type { ErrorFormat } from '../shared/endpoints/definition/answer-format.ts';
import type { Call } from '../shared/endpoints/definition/read-call.ts';
import type { ApiError, ErrorCode } from '../shared/errors.ts';
import type { Claim } from '../shared/jobs/idempotency.ts';
import type { RunProgress, TokenUsage } from '../shared/jobs/replies.ts';
import type { Admission, LimitCounters } from '../shared/limits/admission.ts';
import type { PlanFile } from '../shared/plan-file/plan-file.ts';
import type { Caller } from '../shared/store/records/account.ts';
import type { Span } from '../shared/tracing/span.ts';
import type { Credential } from './authentication/authorization.ts';
import type { HeldLease } from './limits/settle-interrupted.ts';
import type { BodyShare } from './listener/body-budget.ts';
import type { JsonBody } from './listener/json-body.ts';
import type { HeldPlace } from './queue/queue-bounds.ts';

/**
 * Whether Redis was asked for the current version of a request's caller. `due`: not yet. `begun`: it was, or the attempt has failed, so a
 * request that fails from here on needs no further check.
 */
type CallerCheck = 'due' | 'begun';

/** The data that the stages of one request leave for later stages. */
export type RequestState = {
  /** The plan file from the beginning of the request to its end. */
  planFile: PlanFile;
  requestId: string;
  /** The path below which the API was called, if it is not the root. */
  basePath?: string;
  /** Undefined for the usual one. */
  errorFormat?: ErrorFormat | undefined;
  /** Set if requests are traced. */
  span?: Span;
  clientRequestId?: string;
  /** Where the request came from, as the outermost trusted proxy saw it. */
  address?: string;
  credential?: Credential;
  /** Whether the sign-in token is one of an operator. */
  isOperator?: boolean;
  /** May be outdated until its check has succeeded. */
  caller?: Caller | undefined;
  callerCheck?: CallerCheck;
  /** Redis's time when the caller was checked, in milliseconds. Set if the route needs it. */
  now?: number;
  /** The usage of the caller's limits. Set if the route needs it. */
  counters?: LimitCounters;
  /** All of the body has been read. Node's `complete` can still be false then. */
  isBodyWhole?: true;
  body?: JsonBody | undefined;
  /** The share of this request's body in the budget of this process. */
  bodyShare?: Pick<BodyShare, 'leave'>;
  call?: Call | undefined;
  /** The model of the call, by its name in the plan file. */
  model?: string;
  /** Set for a request with an idempotency key. */
  claim?: Claim;
  /** Why a request with an idempotency key is refused, unless it is a repeat. */
  refusal?: ApiError;
  /** The request whose answer a repeat gets. */
  repeated?: { first: string };
  /** The request's room in its model's queue, until the stage that queues it takes it over. */
  place?: HeldPlace;
  /** The most requests at once of the account while the room to wait is short. */
  fairShare?: number | undefined;
  /** Set by admission. */
  lease?: HeldLease & { admission: Admission };
  /** Requests that the account has in flight, including this one. */
  inFlight?: number;
  /** The response body is in memory anyway, for all requests together. */
  isBodyShared?: true;
  /** The body takes part of its time itself, and limits how long its client may take to read it. */
  limitsReading?: true;
  /** The usage of an answered request. */
  usage?: TokenUsage | undefined;
  /** How a worker serves the request, as far as it is known. */
  served?: Partial<RunProgress>;
  /** When the first and the latest text of a stream were written, by `performance.now()`. */
  streamed?: { firstTextAt: number; lastTextAt: number };
  /** The error that the client got. */
  errorCode?: ErrorCode;
};

export type AppContext = ParameterizedContext<RequestState>;
export type Stage = (ctx: AppContext, next: () => Promise<void>) => Promise<void>;

/** Returns a parameter of the route's path, and an empty text if the route does not have it. */
export function pathParameter(ctx: AppContext, name: string): string {
  const { params } = ctx as { params?: Readonly<Record<string, string | undefined>> }; // set by the router
  return params?.[name] ?? '';
}

/** Returns what an earlier stage has set. If that stage is missing from the route, the error is ours, not the client's. */
export function stateOf<Name extends keyof RequestState>(ctx: AppContext, name: Name): NonNullable<RequestState[Name]> {
  const value = ctx.state[name];
  if (value === undefined || value === null) throw new Error(`no stage before this one has set "${name}"`);
  return value;
}

/** Redis's time when the caller was checked, which decides when a month begins. */
export function timeOf(ctx: AppContext): Date {
  return new Date(stateOf(ctx, 'now'));
}
