import { getRandomValues } from 'node:crypto';
import { monotonicFactory } from 'ulid';
import type { Endpoint } from '../../shared/endpoints/definition/endpoint.ts';
import { endpoints } from '../../shared/endpoints/endpoints.ts';
import { messages } from '../../shared/endpoints/messages/messages.ts';
import { ApiError, nestedErrorBody } from '../../shared/errors.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { headerValues } from '../listener/request-headers.ts';
import type { AppContext, Stage } from '../request-state.ts';

const nextUlid = monotonicFactory(drawRandom());
const clientIdPattern = /^[\x21-\x7e]{1,512}$/;

/** Returns `req_` and a ULID. The ids of one process ascend. */
export function nextRequestId(): string {
  return `req_${nextUlid()}`;
}

/** Gives the request an id, and sets it on the response (contract.md#a3-request-ids). */
export const assignRequestId: Stage = function assignRequestId(ctx, next) {
  ctx.state.requestId = nextRequestId();
  ctx.res.setHeader('x-request-id', ctx.state.requestId);
  return next();
};

/** Echoes and logs the client's own request id. It is never used as an id of ours. */
export const echoClientRequestId: Stage = function echoClientRequestId(ctx, next) {
  const clientId = ctx.get('x-client-request-id');
  if (clientId !== '') {
    if (!clientIdPattern.test(clientId)) {
      throw new ApiError('VALIDATION_ERROR', 'x-client-request-id: expected at most 512 visible ASCII characters');
    }
    ctx.state.clientRequestId = clientId;
    ctx.res.setHeader('x-client-request-id', clientId);
  }
  return next();
};

/**
 * Returns random numbers from 0 to below 1 by the platform's generator, drawn many at a time: a call for each letter would cost more than
 * the rest of an id.
 */
function drawRandom(): () => number {
  const drawn = new Uint32Array(256);
  let next = drawn.length;
  return () => {
    if (next === drawn.length) {
      getRandomValues(drawn);
      next = 0;
    }
    return (drawn[next++] ?? 0) / 2 ** 32;
  };
}

/**
 * Requires exactly one Host header (RFC 9112 3.2), and a target that can be parsed. Node's own check of Host is turned off, because its
 * refusal has no body.
 */
export const requireWellFormedHead: Stage = function requireWellFormedHead(ctx, next) {
  if (ctx.req.httpVersion === '1.1' && headerValues(ctx.req, 'host').length !== 1) {
    throw new ApiError('VALIDATION_ERROR', 'Host: expected exactly one Host header');
  }
  requireReadablePath(ctx);
  return next();
};

function requireReadablePath(ctx: AppContext): void {
  try {
    void ctx.path;
  } catch (error) {
    throw new ApiError('VALIDATION_ERROR', 'request: expected a path', { cause: error });
  }
}

/** The same API is served below this path as well, with errors as OpenAI's SDKs parse them (contract.md#b10-errors-by-base-url). */
const openAiBase = '/openai';
const openAiPaths = `${openAiBase}/v1/`;

const nestedErrors = { body: nestedErrorBody };

/** Endpoints whose errors have a format of their own, also on unknown paths below them (contract.md#g5-messages). */
const withOwnErrors = endpoints.filter(({ errors }) => errors !== undefined);

const modelPaths = /^\/v1\/models(\/|$)/;

/** Whether the client wants models in Anthropic's format: all clients of that API send this header, and none has another base path. */
export function isAnthropic({ req, state }: Pick<AppContext, 'req' | 'state'>): boolean {
  return req.headers['anthropic-version'] !== undefined && state.basePath === undefined;
}

const otherPaths = new Map(
  endpoints.flatMap(({ path, otherPaths = [] }) => otherPaths.map((other) => [other, path] as const)),
);

/** Chooses the format of the errors of a request by its path, removes the base path, and maps other paths of an endpoint to its route. */
export const chooseErrorFormat: Stage = function chooseErrorFormat(ctx, next) {
  const path = pathOf(ctx);
  if (path.startsWith(openAiPaths)) {
    ctx.state.basePath = openAiBase;
    ctx.state.errorFormat = nestedErrors;
    ctx.path = path.slice(openAiBase.length);
    return next();
  }
  const known = otherPaths.get(path);
  if (known !== undefined) ctx.path = known;
  const endpoint = modelPaths.test(path) && isAnthropic(ctx) ? messages : withOwnErrors.find(isBelow(path));
  if (endpoint !== undefined) {
    ctx.state.errorFormat = endpoint.errors;
    const { requestId } = endpoint.headers;
    if (requestId !== undefined) ctx.res.setHeader(requestId, ctx.state.requestId);
  }
  return next();
};

function isBelow(path: string): (endpoint: Endpoint) => boolean {
  return (endpoint) => path === endpoint.path || path.startsWith(`${endpoint.path}/`);
}

/** A later stage refuses a path that cannot be read. */
function pathOf(ctx: AppContext): string {
  try {
    return ctx.path;
  } catch {
    return '';
  }
}

/** A request uses the same plan file from its beginning to its end, however often it is replaced meanwhile. */
export function holdPlanFile({ currentPlanFile }: { currentPlanFile: () => PlanFile }): Stage {
  return function holdPlanFile(ctx, next) {
    ctx.state.planFile = currentPlanFile();
    return next();
  };
}
