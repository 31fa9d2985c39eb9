import { ApiError } from '../../shared/errors.ts';
import type { Documentation } from '../documentation/documentation.ts';
import { scriptlessPolicy } from '../pages/content-security-policy.ts';
import { servePage } from '../pages/serve-content.ts';
import type { Stage } from '../request-state.ts';

/** `GET /docs` and `GET /docs/{page}`: pages that run no script and load nothing but their style sheets. */
export function showDocumentation({ documentation }: { documentation: Documentation }): Stage {
  const policy = scriptlessPolicy();
  return async function showDocumentation(ctx, next) {
    const { params } = ctx as { params?: { page?: string } }; // the router sets it for the route that names it
    const content = await documentation.page(params?.page ?? '');
    if (content === undefined) throw new ApiError('NOT_FOUND', 'There is nothing at this path.');
    await servePage(content, policy)(ctx, next);
  };
}
