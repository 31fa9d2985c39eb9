/**
 * Answers of a node that is starting, has lost its master or its disk, runs a script for too long, or no longer has the slot. Any other
 * refusal, such as NOPERM, needs an operator.
 */
const unavailableAnswers = /^(ASK|BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|MISCONF|MOVED|NOREPLICAS|READONLY|TRYAGAIN)\b/;

/** Errors of the library and of sockets, by name. AggregateError: none of a host's addresses can be reached. */
const connectionErrors = new Set([
  ...['Error', 'AbortError', 'AggregateError', 'ClusterAllFailedError', 'MaxRetriesPerRequestError'],
]);

/** Whether a call failed because a node of a cluster is unavailable, not because the call is wrong or not permitted. */
export function isNodeUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return error.name === 'ReplyError' ? unavailableAnswers.test(error.message) : connectionErrors.has(error.name);
}
