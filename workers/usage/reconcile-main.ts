// `reconcile-main.ts` is a link to this file. A Node without TypeScript refuses files named `.ts`, but follows the link first, so that the
// guard can print what is needed (internals/decisions.md#an-entry-for-every-node).
import '../../shared/process/require-node-24.mjs';

const { runReconcile } = await import('./run-reconcile.ts');
await runReconcile();
