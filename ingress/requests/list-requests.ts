import type { Store } from '../../shared/store/store.ts';
import type { RecordPlace, UsageRecord } from '../../shared/store/usage/usage-record.ts';
import type { RequestPlaces } from './find-request.ts';
import { byAdmission, ended, type FoundRequest } from './found-request.ts';
import { tooManyWait } from './read-waiting-usage.ts';

/** Bounds the work for a page: requests that do not match are looked at, too. */
const examinedMax = 1_000;
/** Records that are read together while some do not match. */
const recordsAtOnce = 100;

/** `outcome` matches only requests that have ended. */
export type RequestFilter = {
  model?: string | undefined;
  outcome?: UsageRecord['outcome'] | undefined;
  keyId?: string | undefined;
};

type Page = { limit: number; before?: RecordPlace | undefined; filter: RequestFilter };

/** `last`: the next page begins after this request. It can have fewer than `limit` requests, even none, and more can follow. */
export type RequestPage = { requests: FoundRequest[]; last: FoundRequest | undefined; hasMore: boolean };

/** Lists the requests of an account by admission, latest first. */
export type ListRequests = (account: string, page: Page) => Promise<RequestPage>;

/**
 * Reads all places in the order in which requests move, so that one that moves meanwhile is seen at least once, and is listed once. Fails
 * with `SERVICE_UNAVAILABLE` if too many records wait to be read.
 */
export function createListRequests(places: RequestPlaces): ListRequests {
  return async function listRequests(account, { limit, before, filter }) {
    const recent = await recentRequests(places, account);
    const isNext = (request: RecordPlace) => before === undefined || byAdmission(before, request) < 0;
    const hasFilter = Object.values(filter).some((value) => value !== undefined);
    const atOnce = hasFilter ? recordsAtOnce : limit + 1;
    const stored = storedRecords(places.store, account, { before, atOnce });

    const requests: FoundRequest[] = [];
    let examined = 0;
    let last: FoundRequest | undefined;
    for await (const request of merged(recent.filter(isNext), stored)) {
      if (requests.length === limit && matches(request, filter))
        return { requests, last: requests.at(-1), hasMore: true };
      if (examined === examinedMax) return { requests, last, hasMore: true };
      if (matches(request, filter)) requests.push(request);
      last = request;
      examined += 1;
    }
    return { requests, last: requests.at(-1), hasMore: false };
  };
}

function matches(request: FoundRequest, { model, outcome, keyId }: RequestFilter): boolean {
  if (model !== undefined && request.model !== model) return false;
  if (keyId !== undefined && request.keyId !== keyId) return false;
  return outcome === undefined || (request.state === 'ended' && request.outcome === outcome);
}

/** Requests that run, and those that may not be in the store yet, each once, in order. */
async function recentRequests({ leases, waitingUsage }: RequestPlaces, account: string): Promise<FoundRequest[]> {
  const running = await leases.list(account);
  const { records, isComplete } = await waitingUsage.list(account);
  if (!isComplete) throw tooManyWait();
  const found = [...running, ...records.map(ended)];
  return [...new Map(found.map((request) => [request.requestId, request])).values()].sort(byAdmission);
}

/** The stored records before a place, in order. */
async function* storedRecords(
  store: Pick<Store, 'usage'>,
  account: string,
  { before, atOnce }: { before: RecordPlace | undefined; atOnce: number },
): AsyncGenerator<FoundRequest> {
  for (let from = before; ; ) {
    const records = await store.usage.listUsageRecords(account, { before: from, limit: atOnce });
    yield* records.map(ended);
    if (records.length < atOnce) return;
    from = records.at(-1);
  }
}

/** Both in order, and the stored record of a request that is in both. */
async function* merged(
  recent: readonly FoundRequest[],
  stored: AsyncIterable<FoundRequest>,
): AsyncGenerator<FoundRequest> {
  const waiting = [...recent];
  for await (const record of stored) {
    for (let next = waiting[0]; next !== undefined && byAdmission(next, record) <= 0; next = waiting[0]) {
      waiting.shift();
      if (next.requestId !== record.requestId) yield next;
    }
    yield record;
  }
  yield* waiting;
}
