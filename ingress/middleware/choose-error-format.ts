import type { Endpoint } from '../../shared/endpoints/definition/endpoint.ts';
import { messages } from '../../shared/endpoints/messages/messages.ts';
import { endpoints } from '../../shared/endpoints/routes.ts';
import { nestedErrorBody } from '../../shared/errors.ts';
import type { AppContext, Stage } from '../request-state.ts';

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
