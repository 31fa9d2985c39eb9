import type { RecordPlace, UsageRecord } from '../../shared/store/usage/usage-record.ts';

/** A request that has a lease. `queued`: no worker has begun. `streaming`: text was sent to the client. */
export type RunningRequest = Pick<UsageRecord, 'requestId' | 'admittedAt' | 'endpoint' | 'model' | 'keyId'> & {
  state: 'queued' | 'running' | 'streaming';
};

export type EndedRequest = UsageRecord & { state: 'ended' };

export type FoundRequest = RunningRequest | EndedRequest;

/** An id of a request of ours: of one that a client waits for, or of a line of a batch. */
export const requestIdPattern = /^req_[0-9A-HJKMNP-TV-Z]{26}(?:-\d{1,6})?$/;

/** Whether a request of this id is one of a line of a batch. */
export function isOfLine(requestId: string): boolean {
  return /-\d+$/.test(requestId);
}

export function ended(record: UsageRecord): EndedRequest {
  return { ...record, state: 'ended' };
}

/** Sorts requests by admission, latest first. */
export function byAdmission(one: RecordPlace, other: RecordPlace): number {
  const later = other.admittedAt.getTime() - one.admittedAt.getTime();
  if (later !== 0) return later;
  if (one.requestId === other.requestId) return 0;
  return one.requestId < other.requestId ? 1 : -1;
}
