/** What an error code means for one request. */
export type CodeWords = {
  /** What happened, as a sentence without its end: reasons can follow. */
  happened: string;
  /** What the client got, if the code always says the same. */
  message?: string;
  /** What the account can do. */
  advice: string;
  /** What operators can do. */
  repair?: string;
};

/** The codes that an admitted request, or a line of a batch, can end with. */
export const codeWords: Readonly<Record<string, CodeWords>> = {
  UPSTREAMS_EXHAUSTED: {
    happened: 'No model server could answer',
    message: 'No model server could answer. Retry with exponential backoff.',
    advice: 'Send it again, with growing pauses.',
    repair: 'Repair the model servers that failed, or add another one for this model.',
  },
  SERVICE_UNAVAILABLE: {
    happened: 'The service could not handle the request at that moment',
    advice: 'Send it again after the pause in Retry-After.',
    repair: 'Check on the fleet page that workers run, and how many requests wait.',
  },
  UPSTREAM_INTERRUPTED: {
    happened: 'The answer broke off after a part of it was delivered',
    advice: 'Send the request again, and use the new answer from its beginning.',
    repair: 'Check the log of the model server at this time.',
  },
  DEADLINE_EXCEEDED: {
    happened: 'The request did not finish within its maximum time',
    message: 'The request was not finished before its deadline.',
    advice: 'Ask for fewer tokens (max_tokens), or send it in a batch.',
    repair: 'Check why the model server is slow, or raise request_ms in the plan file.',
  },
  VALIDATION_ERROR: {
    happened: 'The model server refused the request as invalid',
    advice: 'Correct the field that the message names, and send it again.',
    repair: 'Nothing, if the request was wrong. The rule below recognised the refusal.',
  },
  PAYLOAD_TOO_LARGE: {
    happened: 'The request or its answer was larger than allowed',
    advice: 'Send less text, or ask for fewer tokens.',
  },
  FORBIDDEN: {
    happened: 'The request was ended early',
    advice: 'An operator ended it, its key was revoked, or the account was suspended. Ask the operator.',
    repair: 'The audit trail of the account says who did it.',
  },
  INTERNAL_ERROR: {
    happened: 'An unexpected error of the service ended the request',
    message: 'Something went wrong on our side.',
    advice: 'Send it again. If the error stays, give the operator the request ID.',
    repair: 'Search the logs of the ingress and the worker for the request ID.',
  },
  REQUEST_TIMEOUT: {
    happened: 'The client disconnected before the answer was complete',
    advice: 'If you did not stop it, raise the timeout of your client, or stream the answer.',
  },
  quota_exceeded: {
    happened: 'The tokens of the month were used up when its turn came',
    advice: 'Top up, turn overage on, or wait for the next month.',
  },
  rate_limit_exceeded: {
    happened: 'A limit of the account did not admit it',
    advice: 'Wait, or choose a model that the plan includes.',
  },
  batch_expired: {
    happened: 'The batch ended before this line was finished',
    message: 'The line was not finished before the completion window ended.',
    advice: 'Send the line in a new batch.',
  },
  batch_cancelled: {
    happened: 'The batch was cancelled before this line was finished',
    message: 'The batch was cancelled before the line was finished.',
    advice: 'Send the line in a new batch, if you still need it.',
  },
  account_bytes_limit: {
    happened: 'The files of the account left no room for the answer',
    message: 'The files and results of this account leave no room for the answer of this line.',
    advice: 'Delete files that you do not need, and send the line in a new batch.',
  },
};

/** Codes of errors of the service: those whose status is 5xx. What else fails is an error of the client. */
const serviceCodes: ReadonlySet<string> = new Set([
  ...['INTERNAL_ERROR', 'SERVICE_UNAVAILABLE', 'UPSTREAMS_EXHAUSTED', 'UPSTREAM_INTERRUPTED', 'DEADLINE_EXCEEDED'],
]);

/** Whether the service, not the client, caused an error: by its code, or the outcome in place of a code. */
export function isServiceError(code: string): boolean {
  return serviceCodes.has(code) || code === 'lost' || code === 'failed';
}

/** The filter of requests that ended with a code, or with an outcome in place of one. */
export function filterOfCode(code: string): { code: string } | { outcome: string } {
  return code === 'lost' || code === 'failed' ? { outcome: code } : { code };
}

/** Codes of requests that were admitted in any case. Others are also those of requests that were refused, which no page shows. */
const admittedCodes: ReadonlySet<string> = new Set([
  ...['UPSTREAMS_EXHAUSTED', 'UPSTREAM_INTERRUPTED', 'DEADLINE_EXCEEDED'],
]);

/** Whether a request that failed surely has a page: it was admitted. An answer that had begun, too. */
export function wasAdmitted({ status, code }: { status: number; code: string }): boolean {
  return (status >= 200 && status < 400) || admittedCodes.has(code);
}

/** In reports, the model of requests that were refused. They are only counted, and in no list. */
export const refusedModel = '-';

/** The pages of the runbooks that explain a request, with their titles. */
export const runbooks = {
  'backend-account-refused': 'A backend refuses our account',
  'backend-failing': 'A backend fails',
  'backend-lacks-model': 'A backend does not have a model',
  'backend-loading': 'A backend loads its model for long',
  'batch-lines-lost': 'Lines of batches are lost',
  'first-token-slow': 'The first token is slow',
  'leases-expiring': 'Leases expire',
  'model-down': 'A model is down',
  'output-limit-ignored': 'A backend ignores the output limit',
  'queue-waits-long': 'Requests wait long in the queue',
  'requests-failing': 'Requests fail',
} as const;

export type RunbookName = keyof typeof runbooks;
