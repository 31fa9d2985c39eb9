import type { Stage } from '../request-state.ts';

/** Forbids caches to store a response that can contain a key, or a file that may be deleted (RFC 9111 5.2.2.5). */
export const forbidStoring: Stage = async function forbidStoring(ctx, next) {
  ctx.set('cache-control', 'no-store');
  await next();
};
