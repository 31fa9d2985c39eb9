import type { Documentation } from '../documentation/documentation.ts';
import { scriptlessPolicy } from '../pages/content-security-policy.ts';
import { servePage } from '../pages/serve-content.ts';
import type { Stage } from '../request-state.ts';

type Pages = { documentation: Documentation };

/** `GET /docs` and its pages: they run no script and load nothing but their style sheets. */
export function showDocumentation({ documentation }: Pages): Stage {
  const policy = scriptlessPolicy();
  const showMissing = showMissingPage({ documentation });
  return async function showDocumentation(ctx, next) {
    const { params } = ctx as { params?: { page?: string } }; // the router sets it for the route that names it
    const content = await documentation.page((params?.page ?? '').replace(/\/$/, ''));
    await (content === undefined ? showMissing : servePage(content, policy))(ctx, next);
  };
}

/** An unknown path below `/docs`: a page, too, because people follow links to it. */
export function showMissingPage({ documentation }: Pages): Stage {
  return servePage(documentation.missing, scriptlessPolicy(), 404);
}
