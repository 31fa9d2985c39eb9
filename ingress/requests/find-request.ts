import type { Store } from '../../shared/store/store.ts';
import type { UsageRecord } from '../../shared/store/usage/usage-record.ts';
import { ended, type FoundRequest, requestIdPattern } from './found-request.ts';
import type { ReadLeases } from './read-leases.ts';
import { type ReadWaitingUsage, tooManyWait } from './read-waiting-usage.ts';

/** Longer ids are not in records (shared/endpoints/answers/answer-id.ts). */
const idLengthMax = 200;
/** An id that this service has made for an answer that had none, and that model servers make of the `x-request-id` they get. */
const madeOfRequestId = /^[a-z]+[-_](req_[0-9A-HJKMNP-TV-Z]{26}(?:-\d{1,6})?)$/;

/** Finds a request of the account by its id, or by the id of its answer. */
export type FindRequest = (account: string, id: string) => Promise<FoundRequest | undefined>;

/** Where requests are, in the order in which they move. */
export type RequestPlaces = {
  leases: ReadLeases;
  waitingUsage: ReadWaitingUsage;
  store: Pick<Store, 'usage'>;
};

/**
 * Looks where the request is while it runs, then where it moves (contract.md#h3-find-a-request): so one that ends meanwhile is found. Fails
 * with `SERVICE_UNAVAILABLE` if it may be where this cannot look.
 */
export function createFindRequest({ leases, waitingUsage, store }: RequestPlaces): FindRequest {
  async function findById(account: string, requestId: string): Promise<FoundRequest | undefined> {
    const running = await leases.find(account, requestId);
    if (running !== undefined) return running;
    const settled = await waitingUsage.findSettled(account, requestId);
    if (settled !== undefined) return ended(settled);
    // It was lost, was settled long ago, or is not there.
    return findEnded(account, {
      isWanted: (record) => record.requestId === requestId,
      findStored: () => store.usage.findUsageRecord(requestId),
    });
  }

  function findByAnswer(account: string, answerId: string): Promise<FoundRequest | undefined> {
    return findEnded(account, {
      isWanted: (record) => record.answerId === answerId,
      findStored: () => store.usage.findUsageByAnswer(account, answerId),
    });
  }

  async function findEnded(account: string, { isWanted, findStored }: Search): Promise<FoundRequest | undefined> {
    const { records, isComplete } = await waitingUsage.list(account);
    const waiting = records.findLast(isWanted);
    if (waiting !== undefined) return ended(waiting);
    const stored = await findStored();
    if (stored?.account === account) return ended(stored);
    if (!isComplete) throw tooManyWait();
    return undefined;
  }

  return async function findRequest(account, id) {
    if (id.length > idLengthMax) return undefined;
    if (requestIdPattern.test(id)) return findById(account, id);
    const requestId = madeOfRequestId.exec(id)?.[1];
    const made = requestId === undefined ? undefined : await findById(account, requestId);
    return made !== undefined && mayHaveAnswer(made, id) ? made : findByAnswer(account, id);
  };
}

type Search = {
  isWanted: (record: UsageRecord) => boolean;
  findStored: () => Promise<UsageRecord | undefined>;
};

/** The id of an answer is known when the request has ended, if the model server gave one. */
function mayHaveAnswer(found: FoundRequest, answerId: string): boolean {
  return found.state !== 'ended' || found.answerId === undefined || found.answerId === answerId;
}
