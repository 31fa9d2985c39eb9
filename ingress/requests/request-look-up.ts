import type { Redis } from '../../shared/redis/connections.ts';
import { createFindAnyRequest, type FindAnyRequest } from './find-any-request.ts';
import { createFindRequest, type FindRequest, type RequestPlaces } from './find-request.ts';
import { createListRequests, type ListRequests } from './list-requests.ts';
import { createReadLeases } from './read-leases.ts';
import { createReadWaitingUsage } from './read-waiting-usage.ts';

export type RequestLookUp = { find: FindRequest; findAny: FindAnyRequest; list: ListRequests };

/** Finds and lists requests, in Redis and in the store. */
export function createRequestLookUp(parts: { redis: Redis; store: RequestPlaces['store'] }): RequestLookUp {
  const { redis, store } = parts;
  const places = { leases: createReadLeases(redis), waitingUsage: createReadWaitingUsage(redis), store };
  const find = createFindRequest(places);
  return { find, findAny: createFindAnyRequest({ ...places, redis }), list: createListRequests(places) };
}
