import { contentSecurityPolicy } from '../pages/content-security-policy.ts';
import type { Documentation } from '../pages/documentation/documentation.ts';
import { serveAsset, servePage } from '../pages/serve-content.ts';
import type { SharedAssets } from '../pages/shared-assets.ts';
import { pathParameter, type Stage } from '../request-state.ts';

type Pages = { documentation: Documentation; sharedAssets: SharedAssets };

/** Its scripts may fetch only from our own host: the search index. */
const policy = contentSecurityPolicy();

/** `GET /docs` and its pages. An unknown path is also a page, because people follow links to it. */
export function showDocumentation({ documentation, sharedAssets }: Pages): Stage {
  return async function showDocumentation(ctx, next) {
    const { pages, missing, assets } = await documentation();
    await sharedAssets.share(assets);
    const content = pages.get(pathParameter(ctx, 'page').replace(/\/$/, ''));
    await (content === undefined ? servePage(missing, policy, 404) : servePage(content, policy))(ctx, next);
  };
}

/** `GET` of a style sheet, a module or the search index. */
export function showDocumentationAsset({ documentation, sharedAssets }: Pages): Stage {
  return async function showDocumentationAsset(ctx, next) {
    const { assets, missing } = await documentation();
    await serveAsset({ own: assets, shared: sharedAssets }, servePage(missing, policy, 404))(ctx, next);
  };
}
