import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';

/** Every Redis key of the service (contract.md#m1-keys), except BullMQ's own. */

/** Interactive: a client waits. Batch: no client waits, and the lane uses the capacity that interactive leaves free. */
export type Lane = 'interactive' | 'batch';

export const lanes: readonly Lane[] = ['interactive', 'batch'];

/** Number of partitions: the hash tags that accounts share, and the usage outboxes. */
export const partitionCount = 64;

/** Each request builds a dozen keys of one account, and hashing its id takes as long as the rest of that together. */
const partitions = new LRUCache<string, number>({ max: 10_000 });

/**
 * The partition of an account, one of 64 by a hash of its id. All keys of an account share its hash tag, so that a script over several of
 * them is legal in a cluster (contract.md#m2-partitions).
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
 * Hash: the counters of one account's limits: the window of the last minute, the day, and the tokens of this and last month. Expires 62
 * days after its last use, which is past the end of the following month.
 */
export const countersKey = (account: string) => `svc:${partitionTag(account)}:counters:${account}`;

/** Hash: the highest use of an account's limits, by steps of ten minutes. Expires 70 minutes after its last use. */
export const peaksKey = (account: string) => `svc:${partitionTag(account)}:peaks:${account}`;

/**
 * Hash: the counters of one further key of an account, if that has limits of its own. Expires two days after its last use, or two minutes
 * after it if the key has no limit of the month.
 */
export function keyCountersKey(account: string, keyId: string): string {
  return `svc:${partitionTag(account)}:key-counters:${account}:${keyId}`;
}

/** Matches the counters key of every account, as a pattern for `SCAN`. */
export const countersKeys = 'svc:{p[0-9][0-9]}:counters:*';

/** Returns the account that this counters key belongs to. */
export function accountOfCountersKey(key: string): string {
  return key.replace(/^svc:\{p\d\d\}:counters:/, '');
}

/** Hash: the leases that one account holds in a lane, by request id. Expires with the account's counters. */
export function leasesKey(account: string, lane: Lane = 'interactive'): string {
  return `svc:${partitionTag(account)}:${lane === 'batch' ? 'batch-' : ''}leases:${account}`;
}

/** Sorted set: the ids of those leases by the time when each expires (milliseconds). Expires with them. */
export function leaseEndsKey(account: string, lane: Lane = 'interactive'): string {
  return `svc:${partitionTag(account)}:${lane === 'batch' ? 'batch-' : ''}lease-ends:${account}`;
}

/** Sorted set: requests of an account whose lease expired, by the time until which that is remembered. Expires with the last. */
export const lostRequestsKey = (account: string) => `svc:${partitionTag(account)}:lost:${account}`;

/** Keys by their names, as scripts take them. */
export const leaseKeysOf = (account: string, lane?: Lane) => ({
  countersKey: countersKey(account),
  leasesKey: leasesKey(account, lane),
  leaseEndsKey: leaseEndsKey(account, lane),
  lostRequestsKey: lostRequestsKey(account),
  outboxKey: outboxKey(partitionOf(account)),
});

/**
 * String: how one request's lease was ended. Expires an hour after the request's deadline, or ten minutes after its release (a line of a
 * batch: an hour).
 */
export function endedRequestKey(account: string, requestId: string): string {
  return `svc:${partitionTag(account)}:ended:${requestId}`;
}

/**
 * Hash: the request that has claimed an idempotency key of an account, and its kept answer (contract.md#h1-idempotency-keys). Its name has
 * only a hash of the key. Expires ten minutes after the request's end, and at the latest an hour after its deadline.
 */
export function claimKey(account: string, idempotencyKey: string): string {
  const hash = createHash('sha256').update(idempotencyKey).digest('base64url');
  return `svc:${partitionTag(account)}:claim:${account}:${hash}`;
}

export const claimKeysOf = (account: string, idempotencyKey: string) => ({
  claimKey: claimKey(account, idempotencyKey),
  keptAnswersKey: keptAnswersKey(account),
  keptBytesKey: keptBytesKey(account),
});

/**
 * Sorted set: the answers that an account keeps for repeats, by when they expire (milliseconds), each with its bytes. Expires with the
 * last.
 */
export const keptAnswersKey = (account: string) => `svc:${partitionTag(account)}:kept-answers:${account}`;

/** Accounts of people and those of devices have separate sums of kept answers. */
export const accountKinds = ['user', 'device'] as const;
export type AccountKind = (typeof accountKinds)[number];

const kindOf = (account: string): AccountKind => (account.startsWith('device:') ? 'device' : 'user');
export const keptBytesKey = (account: string) => keptBytesKeyOf(partitionOf(account), kindOf(account));
export const keptRoomKey = (account: string) => keptRoomKeyOf(partitionOf(account), kindOf(account));

/**
 * Hash: the bytes that a partition keeps or has reserved for answers, by the minute of their expiry. Expires two days after its last
 * change.
 */
export const keptBytesKeyOf = (partition: number, kind: AccountKind) => `svc:${tagOf(partition)}:kept-bytes:${kind}`;

/** String: the bytes that may still be reserved for answers in a partition. Missing while there is enough room. Expires in a minute. */
export const keptRoomKeyOf = (partition: number, kind: AccountKind) => `svc:${tagOf(partition)}:kept-room:${kind}`;

/**
 * Sorted set: the holders of leases in a partition, and those charged in the last two minutes, by the time of their next check
 * (milliseconds). Expires with the leases.
 */
export const leaseHoldersKey = (partition: number) => `svc:${tagOf(partition)}:lease-holders`;

/** An account's leases in a lane. Each lane is checked separately. */
export type LeaseHolder = { account: string; lane: Lane };

const batchHolder = 'batch:';

/** The holder as a member of that set. Account ids begin with `user:` or `device:`. */
export function leaseHolderOf({ account, lane }: LeaseHolder): string {
  return lane === 'batch' ? batchHolder + account : account;
}

export function parseLeaseHolder(member: string): LeaseHolder {
  const isBatch = member.startsWith(batchHolder);
  return { account: isBatch ? member.slice(batchHolder.length) : member, lane: isBatch ? 'batch' : 'interactive' };
}

/** Stream: the usage events of a partition that wait to be stored. Never expires. */
export const outboxKey = (partition: number) => `svc:${tagOf(partition)}:outbox`;

/** Hash: the ids up to which an outbox is `drained` into the store, and `trimmed`. Never expires. */
export const outboxMarksKey = (partition: number) => `svc:${tagOf(partition)}:outbox-marks`;

export const outboxKeysOf = (partition: number) => ({
  outboxKey: outboxKey(partition),
  outboxMarksKey: outboxMarksKey(partition),
});

/** Stream: usage events that could not be read, unchanged, with their ids from the outbox. Never expires. */
export const outboxUnreadableKey = (partition: number) => `svc:${tagOf(partition)}:outbox-unreadable`;

/** String: the worker that holds the lock of a partition. Expires within seconds unless it is renewed. */
export const partitionLockKey = (partition: number) => `svc:${tagOf(partition)}:lock`;

/** String: the worker that holds the lock of an account's batches. Expires within seconds unless it is renewed. */
export const batchLockKey = (account: string) => `svc:${partitionTag(account)}:batch-lock:${account}`;

/** String: the account's version, a copy of the store's that may be missing. Expires between 30 and 60 minutes after its last use. */
export const versionKey = (account: string) => `svc:${partitionTag(account)}:version:${account}`;

/** String: the token of the reads that may fill the account's missing version. Expires after the longest time that a read may take. */
export const fillKey = (account: string) => `svc:${partitionTag(account)}:fill:${account}`;

/** Sorted set: the ids of changes to the account in progress, by the time when each mark expires (milliseconds). Expires with the last. */
export const changesKey = (account: string) => `svc:${partitionTag(account)}:changes:${account}`;

export const versionKeysOf = (account: string) => ({
  versionKey: versionKey(account),
  fillKey: fillKey(account),
  changesKey: changesKey(account),
});

/** String: the caller of a key's hash, as JSON, as ingresses with these secrets read it from the store. Expires an hour after that read. */
export const callerKey = (secretsInUse: string, hash: string) => `svc:caller:${secretsInUse}:${hash}`;

/**
 * Sorted set: the devices created from one network, or from all, by creation time (milliseconds). Expires in an hour. A script uses the
 * keys of several networks together, so they share a tag.
 */
export const guestMintsKey = (network: string | 'all') => `svc:{guest-mints}:${network}`;

/** String: number of guest mint calls from one network within a minute. Expires with that minute. */
export const guestCallsKey = (network: string) => `svc:guest-calls:${network}`;

/** String: number of unknown keys that one network sent within a minute. Expires with that minute. */
export const authFailuresKey = (network: string) => `svc:auth-failures:${network}`;

/** String: number of unknown top-up codes that one account sent within a minute. Expires with that minute. */
export const codeFailuresKey = (account: string) => `svc:code-failures:${account}`;

/** String: number of writes of one account's own keys and settings within a minute. Expires with that minute. */
export const settingsWritesKey = (account: string) => `svc:settings-writes:${account}`;

/** Stream: the replies to one ingress, in frames. Expires a minute after its ingress last renewed it. */
export const replyStreamKey = (ingressId: string) => `svc:reply-frames:${ingressId}`;

/** Stream: messages to one worker process (cancellations). Expires a minute after its worker last renewed it. */
export const controlStreamKey = (workerId: string) => `svc:control:${workerId}`;

/** Sorted set: a member ends a worker's own wait for jobs, of a model in a cluster. Expires in a minute. */
export const bellKey = (workerId: string, model = 'shares') => `svc:{${model}}:bell:${workerId}`;

/** The prefix of every BullMQ key of a model's queues: one tag for each model, because BullMQ's scripts span several keys. */
export const queuePrefix = (model: string) => `svc:{${model}}`;

/* The Redis keys of what processes tell each other: who is there and does what, how much waits, what a page consists of. */

/** Hash: each process of the fleet, as it has described itself. Expires seconds after its last use. */
export const fleetKey = 'svc:fleet';

/** Hash: what each process does. Its tag is the name of the hash of processes, so both are in one node. Expires with it. */
export const fleetLoadKey = 'svc:fleet-load:{svc:fleet}';

/**
 * Hash: what all processes have counted in a step of time (shared/fleet/fleet-counts.ts), which begins at this time in milliseconds. It is
 * in the node of the processes. Expires when it is no longer kept.
 */
export function fleetCountsKey(step: string, startMs: number): string {
  return `svc:fleet-counts:${step}:${startMs}:{${fleetKey}}`;
}

/** String: the assets of pages of one release, for ingresses of other releases. Expires a day after it was last shared. */
export function assetSetKey(release: string): string {
  return `svc:assets:${release}`;
}

/** Hash: how many jobs waited in each queue, and when they were counted. Expires in a minute. */
export const queueDepthsKey = 'svc:queue-depths';

/** String: an ingress is counting them. Expires when they may be counted again. */
export const countingKey = 'svc:queue-depths-counting';

/** String: the worker that assigns accounts with open batches to workers. Expires within seconds unless it is renewed. */
export const batchSchedulerLockKey = 'svc:batch-scheduler-lock';

/** String: the worker that removes expired files. Expires within minutes unless it is renewed. */
export const fileLockKey = 'svc:file-lock';

/** String: the worker that copies waiting audit records. Expires within minutes unless it is renewed. */
export const auditLockKey = 'svc:audit-lock';

/** String: the worker that removes unused devices. Expires within minutes unless it is renewed. */
export const deviceLockKey = 'svc:device-lock';

/** String: the worker that sends to a webhook endpoint. Expires within seconds unless it is renewed. */
export function webhookLockKey(endpoint: string): string {
  return `svc:webhook-lock:${endpoint}`;
}

/** String: the worker that creates the events of batches. Expires within seconds unless it is renewed. */
export const batchEventsLockKey = 'svc:batch-events-lock';

/**
 * String: the worker that creates the events of expiring keys, and removes old deliveries. Expires within 16 minutes unless it is renewed.
 */
export const webhookUpkeepLockKey = 'svc:webhook-upkeep-lock';

/** String: all devices were checked, and unused ones removed. Expires when the next check is due. */
export const devicesLookedAtKey = 'svc:devices-looked-at';

/** Hash: workers' shares of backends (in a cluster of one, `group`), and the workers of each pool. Expires two days after its last use. */
export function sharesKey(group?: string): string {
  return `svc:${sharesTag(group)}:shares`;
}

/** Sorted set: workers, by the time when their shares expire (milliseconds). Expires with them. */
export function sharesExpiryKey(group?: string): string {
  return `svc:${sharesTag(group)}:expiry`;
}

function sharesTag(group: string | undefined): string {
  return group === undefined ? '{shares}' : `{shares:${group}}`;
}

/** String: an operator has paused this backend. Expires when the pause ends. */
export function backendPauseKey(backend: string): string {
  return `svc:backend-paused:${backend}`;
}

/** Sorted set: the requests that operators end, by the time when they asked for it (milliseconds). Expires a minute after the last. */
export const requestsToEndKey = 'svc:requests-to-end';
