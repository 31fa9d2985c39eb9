import type { Stage } from '../request-state.ts';

/** No cache on the way keeps an answer that can hold a key (RFC 9111 5.2.2.5). */
export const forbidStoring: Stage = async function forbidStoring(ctx, next) {
  ctx.set('cache-control', 'no-store');
  await next();
};
