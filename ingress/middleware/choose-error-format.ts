import { endpoints } from '../../shared/endpoints/routes.ts';
import { nestedErrorBody } from '../../shared/errors.ts';
import type { AppContext, Stage } from '../request-state.ts';

/** The same API is served below this path as well, with errors as OpenAI's SDKs parse them (contract.md#b10-errors-by-base-url). */
const openAiBase = '/openai';
const openAiPaths = `${openAiBase}/v1/`;

const nestedErrors = { body: nestedErrorBody };

/** Endpoints whose errors have a format of their own, also on unknown paths below them (contract.md#g5-messages). */
const withOwnErrors = endpoints.filter(({ errors }) => errors !== undefined);

/** Chooses the format of the errors of a request by its path, and removes the base path. */
export const chooseErrorFormat: Stage = function chooseErrorFormat(ctx, next) {
  const path = pathOf(ctx);
  if (path.startsWith(openAiPaths)) {
    ctx.state.basePath = openAiBase;
    ctx.state.errorFormat = nestedErrors;
    ctx.path = path.slice(openAiBase.length);
    return next();
  }
  const endpoint = withOwnErrors.find((each) => path === each.path || path.startsWith(`${each.path}/`));
  if (endpoint !== undefined) {
    ctx.state.errorFormat = endpoint.errors;
    const { requestId } = endpoint.headers;
    if (requestId !== undefined) ctx.res.setHeader(requestId, ctx.state.requestId);
  }
  return next();
};

/** A later stage refuses a path that cannot be read. */
function pathOf(ctx: AppContext): string {
  try {
    return ctx.path;
  } catch {
    return '';
  }
}
