/** Flows that `npm test` also runs on a Redis Cluster: one of each subject that keys of several nodes could break. */
export const clusterFlows: readonly string[] = [
  'chat-completion',
  'limits',
  'revocation',
  'batches',
  'run-batches',
  'files',
  'usage',
].map((name) => `test/flows/${name}.test.ts`);
