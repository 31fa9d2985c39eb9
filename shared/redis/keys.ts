import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Lane } from '../lane.ts';

/** Every Redis key of the service but BullMQ's own is built here. */

/** How many partitions there are: hash tags that accounts share, and usage outboxes. */
export const partitionCount = 64;

/** Each request builds a dozen keys of one account, and hashing its id takes as long as all the rest of that. */
const partitions = new LRUCache<string, number>({ max: 10_000 });

/**
 * The hash tag that all keys of one account share, so that a script over several of them is legal in a cluster:
 * one of 64 by a hash of the account's id.
 */
export function partitionOf(account: string): number {
  const known = partitions.get(account);
  if (known !== undefined) return known;
  const partition = createHash('sha256').update(account).digest().readUInt32BE(0) % partitionCount;
  partitions.set(account, partition);
  return partition;
}

function tagOf(partition: number): string {
  return `{p${String(partition).padStart(2, '0')}}`;
}

function partitionTag(account: string): string {
  return tagOf(partitionOf(account));
}

/**
 * Hash: what counts against one account's limits: the window of the last minute, the day, and this and last month's tokens.
 * Expires 62 days after its last use, which is past the end of the following month.
 */
export function countersKey(account: string): string {
  return `svc:${partitionTag(account)}:standing:${account}`;
}

/** Matches the standing key of every account, as `SCAN` takes it. */
export const countersKeys = 'svc:{p[0-9][0-9]}:standing:*';

/** The account whose standing key this is. */
export function accountOfCountersKey(key: string): string {
  return key.replace(/^svc:\{p\d\d\}:standing:/, '');
}

/**
 * Hash: the leases that one account holds in a lane, by request id: lines of batches are counted apart from requests that
 * somebody waits for. Expires with the account's standing.
 */
export function leasesKey(account: string, lane: Lane = 'interactive'): string {
  return `svc:${partitionTag(account)}:${lane === 'batch' ? 'batch-' : ''}leases:${account}`;
}

/** Sorted set: the ids of those leases by when each ends by itself (milliseconds). Expires with them. */
export function leaseEndsKey(account: string, lane: Lane = 'interactive'): string {
  return `svc:${partitionTag(account)}:${lane === 'batch' ? 'batch-' : ''}lease-ends:${account}`;
}

/** Sorted set: requests of an account whose lease ended by itself, by until when that is remembered. Expires with the last. */
export function lostRequestsKey(account: string): string {
  return `svc:${partitionTag(account)}:lost:${account}`;
}

/** String: how one request's lease was ended by somebody. Expires an hour past the request's deadline, or past its release. */
export function endedRequestKey(account: string, requestId: string): string {
  return `svc:${partitionTag(account)}:ended:${requestId}`;
}

/**
 * Sorted set: who holds leases in a partition, or was charged in the last two minutes, by when to look after them next
 * (milliseconds). Expires with the leases.
 */
export function leaseHoldersKey(partition: number): string {
  return `svc:${tagOf(partition)}:lease-holders`;
}

/** An account's leases in a lane, each lane being looked after by itself. */
export type LeaseHolder = { account: string; lane: Lane };

const batchHolder = 'batch:';

/** As it stands in that set. Account ids begin with `user:` or `device:`. */
export function leaseHolderOf({ account, lane }: LeaseHolder): string {
  return lane === 'batch' ? batchHolder + account : account;
}

export function parseLeaseHolder(member: string): LeaseHolder {
  const isBatch = member.startsWith(batchHolder);
  return { account: isBatch ? member.slice(batchHolder.length) : member, lane: isBatch ? 'batch' : 'interactive' };
}

/** Stream: the usage events of a partition on their way to the store. Never expires. */
export function outboxKey(partition: number): string {
  return `svc:${tagOf(partition)}:outbox`;
}

/** Hash: the ids up to which an outbox is `drained` into the store, and `trimmed`. Never expires. */
export function outboxMarksKey(partition: number): string {
  return `svc:${tagOf(partition)}:outbox-marks`;
}

/** Stream: usage events that could not be read, as they stood in the outbox, under their ids there. Never expires. */
export function outboxUnreadableKey(partition: number): string {
  return `svc:${tagOf(partition)}:outbox-unreadable`;
}

/** String: the worker that looks after a partition. Expires within seconds unless it is renewed. */
export function partitionLockKey(partition: number): string {
  return `svc:${tagOf(partition)}:keeper`;
}

/** String: the worker that looks after the batches of an account. Expires within seconds unless it is renewed. */
export function batchLockKey(account: string): string {
  return `svc:${partitionTag(account)}:batch-keeper:${account}`;
}

/** String: the worker that assigns accounts with open batches to workers. Expires within seconds unless it is renewed. */
export const batchSchedulerLockKey = 'svc:batch-scheduler';

/** String: the worker that removes files whose time is over. Expires within minutes unless it is renewed. */
export const fileLockKey = 'svc:file-keeper';

/** String: the worker that copies audit records which wait. Expires within minutes unless it is renewed. */
export const auditLockKey = 'svc:audit-keeper';

/** String: the worker that removes devices that are no longer used. Expires within minutes unless it is renewed. */
export const deviceLockKey = 'svc:device-keeper';

/** String: all devices were looked at, and unused ones removed. Expires when they are to be looked at again. */
export const devicesLookedAtKey = 'svc:devices-looked-at';

/**
 * String: the account's version, a copy of the store's that may be missing. Expires half an hour to an hour after its last use.
 */
export function versionKey(account: string): string {
  return `svc:${partitionTag(account)}:version:${account}`;
}

/** String: names the readings of the account that may fill its missing version. Expires with what a reading may take. */
export function fillKey(account: string): string {
  return `svc:${partitionTag(account)}:fill:${account}`;
}

/** Sorted set: the ids of changes to the account under way, by when each mark ends (milliseconds). Expires with the last. */
export function changesKey(account: string): string {
  return `svc:${partitionTag(account)}:changes:${account}`;
}

/**
 * String: the caller behind a key's hash, as JSON, as it was read from the store by ingresses with these secrets. Expires an
 * hour after that.
 */
export function callerKey(secretsInUse: string, hash: string): string {
  return `svc:caller:${secretsInUse}:${hash}`;
}

/** Sorted set: the devices that came into being from one network, by when (milliseconds). Expires in an hour. */
export function guestMintsKey(network: string): string {
  return `svc:guest-mints:${network}`;
}

/** Sorted set: the same for all networks together. */
export const allGuestMintsKey = 'svc:guest-mints-of-all';

/** String: calls of guest mint from one network within a minute. Expires with that minute. */
export function guestCallsKey(network: string): string {
  return `svc:guest-calls:${network}`;
}

/** String: keys that one network sent within a minute and that were not found. Expires with that minute. */
export function authFailuresKey(network: string): string {
  return `svc:auth-failures:${network}`;
}

const framesPrefix = 'svc:reply-frames:';

/** Stream: the replies on their way to one ingress, in frames. Expires a minute after its ingress last renewed it. */
export function replyStreamKey(ingressId: string): string {
  return framesPrefix + ingressId;
}

/** False for the stream of an ingress of the release before frames, which reads one reply in an entry. */
export function takesFrames(replyStream: string): boolean {
  return replyStream.startsWith(framesPrefix);
}

/** Stream: what is asked of one worker process (cancellations). Expires a minute after its worker last renewed it. */
export function controlStreamKey(workerId: string): string {
  return `svc:control:${workerId}`;
}

/**
 * Hash: what each worker holds of the limits of its backends, and the workers of each pool (`workers/shares`). Expires two days
 * after its last use, which is longer than a call can take.
 */
export const sharesKey = 'svc:{shares}:held';

/** Sorted set: workers, by when their shares expire (milliseconds). Expires with them. */
export const sharesExpiryKey = 'svc:{shares}:expiry';

/** Hash: how many jobs waited in each queue, and when that was counted. Expires in a minute. */
export const queueDepthsKey = 'svc:queue-depths';

/** String: an ingress counts them now. Expires when they may be counted again. */
export const countingKey = 'svc:queue-depths-counting';

/** Sorted set: ends a worker's own wait for jobs. Expires in a minute. */
export function bellKey(workerId: string): string {
  return `svc:{shares}:bell:${workerId}`;
}

/**
 * BullMQ puts this in front of every key of a queue: a tag for each model, as its scripts span several keys. `tag` is the name of
 * the queue for queues of the release before, which had one for each pool.
 */
export function queuePrefix(tag: string): string {
  return `svc:{${tag}}`;
}
