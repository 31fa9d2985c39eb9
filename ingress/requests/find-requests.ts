import { type Redis, redisUnavailable } from '../../shared/redis/connections.ts';
import { leaseHoldersKey, parseLeaseHolder, partitionCount } from '../../shared/redis/keys.ts';
import type { Store } from '../../shared/store/records/store.ts';
import type { RecordPlace, UsageRecord } from '../../shared/store/usage/usage-record.ts';
import { endCodeOf } from '../../shared/store/usage/usage-tables.ts';
import {
  createReadLeases,
  createReadWaitingUsage,
  type ReadLeases,
  type ReadWaitingUsage,
  type RunningRequest,
  tooManyWait,
} from './read-running-requests.ts';

/** Longer ids are not in records (shared/endpoints/answers/with-missing.ts). */
const idLengthMax = 200;
/** An id that this service has made for an answer that had none, and that model servers make of the `x-request-id` they get. */
const madeOfRequestId = /^[a-z]+[-_](req_[0-9A-HJKMNP-TV-Z]{26}(?:-\d{1,6})?)$/;

/** Finds a request of the account by its id, or by the id of its answer. */
type FindRequest = (account: string, id: string) => Promise<FoundRequest | undefined>;

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

/** Finds a request of any account by its id, for operators. Fails with `SERVICE_UNAVAILABLE` while Redis or the store is away. */
type FindAnyRequest = (id: string) => Promise<AnyRequest | undefined>;

type AnyRequest = { account: string; request: FoundRequest };

/** Accounts that are asked together. */
const accountsAtOnce = 100;

/**
 * Most requests are in the store, which is asked first. Any other is looked for as by its own account (find-requests.ts), where it is while
 * it runs and then where it moves. For that, every account with recent requests is asked and every outbox is read: it is for people, not
 * for programs.
 */
export function createFindAnyRequest({
  redis,
  leases,
  waitingUsage,
  store,
}: Pick<RequestPlaces, 'leases' | 'waitingUsage' | 'store'> & { redis: Redis }): FindAnyRequest {
  async function findRunning(requestId: string): Promise<AnyRequest | undefined> {
    const accounts = await accountsWithLeases();
    for (let from = 0; from < accounts.length; from += accountsAtOnce) {
      const asked = accounts.slice(from, from + accountsAtOnce);
      const found = await Promise.all(
        asked.map(async (account) => ({ account, request: await leases.find(account, requestId) })),
      );
      const [hit] = found.flatMap(({ account, request }) => (request === undefined ? [] : [{ account, request }]));
      if (hit !== undefined) return hit;
    }
    return undefined;
  }

  /** And those that were charged in the last two minutes. */
  async function accountsWithLeases(): Promise<string[]> {
    const partitions = Array.from({ length: partitionCount }, (_, partition) => partition);
    const holders = await redisUnavailable(
      Promise.all(partitions.map((partition) => redis.zrange(leaseHoldersKey(partition), '0', '-1'))),
    );
    return [...new Set(holders.flat().map((holder) => parseLeaseHolder(holder).account))];
  }

  async function findStored(requestId: string): Promise<AnyRequest | undefined> {
    const record = await store.usage.findUsageRecord(requestId);
    return record && { account: record.account, request: ended(record) };
  }

  async function findMoving(requestId: string): Promise<AnyRequest | undefined> {
    const running = await findRunning(requestId);
    if (running !== undefined) return running;
    const { records, isComplete } = await waitingUsage.listOf(requestId);
    const record = records.at(-1);
    if (record !== undefined) return { account: record.account, request: ended(record) };
    const stored = await findStored(requestId);
    if (stored === undefined && !isComplete) throw tooManyWait();
    return stored;
  }

  return async function findAnyRequest(id) {
    if (!requestIdPattern.test(id)) return undefined;
    const stored = await findStored(id).catch(() => undefined); // without the store, one that moves is found
    return stored ?? findMoving(id);
  };
}

type EndedRequest = UsageRecord & { state: 'ended' };

export type FoundRequest = RunningRequest | EndedRequest;

/** An id of a request of ours: of one that a client waits for, or of a line of a batch. */
export const requestIdPattern = /^req_[0-9A-HJKMNP-TV-Z]{26}(?:-\d{1,6})?$/;

/** Whether a request of this id is one of a line of a batch. */
export function isOfLine(requestId: string): boolean {
  return /-\d+$/.test(requestId);
}

function ended(record: UsageRecord): EndedRequest {
  return { ...record, state: 'ended' };
}

/** Sorts requests by admission, latest first. */
function byAdmission(one: RecordPlace, other: RecordPlace): number {
  const later = other.admittedAt.getTime() - one.admittedAt.getTime();
  if (later !== 0) return later;
  if (one.requestId === other.requestId) return 0;
  return one.requestId < other.requestId ? 1 : -1;
}

export type RequestLookUp = { find: FindRequest; findAny: FindAnyRequest; list: ListRequests };

/** Finds and lists requests, in Redis and in the store. */
export function createRequestLookUp(parts: { redis: Redis; store: RequestPlaces['store'] }): RequestLookUp {
  const { redis, store } = parts;
  const places = { leases: createReadLeases(redis), waitingUsage: createReadWaitingUsage(redis), store };
  const find = createFindRequest(places);
  return { find, findAny: createFindAnyRequest({ ...places, redis }), list: createListRequests(places) };
}

/** Bounds the work for a page: requests that do not match are looked at, too. */
const examinedMax = 1_000;
/** Records that are read together while some do not match. */
const recordsAtOnce = 100;

/**
 * `outcome`, `code` (as hours have it: of the error, else the outcome) and `slowerThanMs` match only requests that have ended. `start` and
 * `end` are times of admission, the end not included.
 */
export type RequestFilter = {
  model?: string | undefined;
  outcome?: UsageRecord['outcome'] | undefined;
  code?: string | undefined;
  endpoint?: string | undefined;
  keyId?: string | undefined;
  batch?: string | undefined;
  slowerThanMs?: number | undefined;
  start?: Date | undefined;
  end?: Date | undefined;
};

/** `isFolded`: of the lines of a batch, only the first one of the page. */
type Page = { limit: number; before?: RecordPlace | undefined; filter: RequestFilter; isFolded?: boolean | undefined };

/** With `lines`, it stands for so many lines of its batch, of which so many have failed, with so many tokens charged. */
export type ListedRequest = { request: FoundRequest; lines?: FoldedLines };
export type FoldedLines = { requests: number; failed: number; chargedTokens: number };

/** `last`: the next page begins after this request. It can have fewer than `limit` requests, even none, and more can follow. */
export type RequestPage = { requests: ListedRequest[]; last: FoundRequest | undefined; hasMore: boolean };

/** Lists the requests of an account by admission, latest first. */
type ListRequests = (account: string, page: Page) => Promise<RequestPage>;

/**
 * Reads all places in the order in which requests move, so that one that moves meanwhile is seen at least once, and is listed once. Fails
 * with `SERVICE_UNAVAILABLE` if too many records wait to be read.
 */
export function createListRequests(places: RequestPlaces): ListRequests {
  return async function listRequests(account, { limit, before: after, filter, isFolded = false }) {
    const recent = await recentRequests(places, account);
    const before = earlierPlace(after, filter.end);
    const isNext = (request: RecordPlace) => before === undefined || byAdmission(before, request) < 0;
    const isFiltered = isFolded || Object.values(filter).some((value) => value !== undefined);
    const atOnce = isFiltered ? recordsAtOnce : limit + 1;
    const stored = storedRecords(places.store, account, { before, atOnce });

    const requests: ListedRequest[] = [];
    const batches = new Map<string, number>();
    let examined = 0;
    let last: FoundRequest | undefined;
    for await (const request of merged(recent.filter(isNext), stored)) {
      if (filter.start !== undefined && request.admittedAt < filter.start) break;
      const isWanted = matches(request, filter);
      const place = isWanted && isFolded && request.batch !== null ? batches.get(request.batch) : undefined;
      if (requests.length === limit && isWanted && place === undefined)
        return { requests, last: isFolded ? last : requests.at(-1)?.request, hasMore: true };
      if (examined === examinedMax) return { requests, last, hasMore: true };
      const listed = place === undefined ? undefined : requests[place];
      if (place !== undefined && listed !== undefined) requests[place] = foldInto(listed, request);
      else if (isWanted) {
        if (request.batch !== null) batches.set(request.batch, requests.length);
        requests.push({ request });
      }
      last = request;
      examined += 1;
    }
    return { requests, last: requests.at(-1)?.request, hasMore: false };
  };
}

/** The one that comes later in a list. Every request of the time `end` comes after its place. */
function earlierPlace(place: RecordPlace | undefined, end: Date | undefined): RecordPlace | undefined {
  if (end === undefined) return place;
  const ofEnd = { admittedAt: end, requestId: '' };
  return place === undefined || byAdmission(place, ofEnd) < 0 ? ofEnd : place;
}

/** The listed line with one more line of its batch. */
function foldInto(listed: ListedRequest, request: FoundRequest): ListedRequest {
  const lines = listed.lines ?? countLine({ requests: 0, failed: 0, chargedTokens: 0 }, listed.request);
  return { request: listed.request, lines: countLine(lines, request) };
}

function countLine({ requests, failed, chargedTokens }: FoldedLines, line: FoundRequest): FoldedLines {
  const ended = line.state === 'ended' ? line : undefined;
  const hasFailed = ended?.outcome === 'failed' || ended?.outcome === 'lost';
  return {
    requests: requests + 1,
    failed: failed + Number(hasFailed),
    chargedTokens: chargedTokens + (ended?.chargedTokens ?? 0),
  };
}

function matches(request: FoundRequest, filter: RequestFilter): boolean {
  const { model, outcome, code, endpoint, keyId, batch, slowerThanMs } = filter;
  if (model !== undefined && request.model !== model) return false;
  if (endpoint !== undefined && request.endpoint !== endpoint) return false;
  if (keyId !== undefined && request.keyId !== keyId) return false;
  if (batch !== undefined && request.batch !== batch) return false;
  if (outcome === undefined && code === undefined && slowerThanMs === undefined) return true;
  if (request.state !== 'ended') return false;
  if (outcome !== undefined && request.outcome !== outcome) return false;
  if (code !== undefined && endCodeOf(request) !== code) return false;
  return slowerThanMs === undefined || (request.durationMs ?? 0) > slowerThanMs;
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
