import type { Documentation } from '../documentation/documentation.ts';
import { scriptlessPolicy } from '../pages/content-security-policy.ts';
import { servePage } from '../pages/serve-content.ts';
import { pathParameter, type Stage } from '../request-state.ts';

type Pages = { documentation: Documentation };

/** `GET /docs` and its pages, which run no scripts and load only their style sheets. */
export function showDocumentation({ documentation }: Pages): Stage {
  const policy = scriptlessPolicy();
  const showMissing = showMissingPage({ documentation });
  return async function showDocumentation(ctx, next) {
    const content = await documentation.page(pathParameter(ctx, 'page').replace(/\/$/, ''));
    await (content === undefined ? showMissing : servePage(content, policy))(ctx, next);
  };
}

/** An unknown path below `/docs` is also a page, because people follow links to it. */
export function showMissingPage({ documentation }: Pages): Stage {
  return servePage(documentation.missing, scriptlessPolicy(), 404);
}
