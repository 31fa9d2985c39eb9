import { createHash } from 'node:crypto';

/** Every Redis key of the service but BullMQ's own is built here. */

const partitions = 64;

/**
 * The hash tag that all keys of one account share, so that a script over several of them is legal in a cluster:
 * one of 64 by a hash of the account's id.
 */
export function partitionOf(account: string): number {
  return createHash('sha256').update(account).digest().readUInt32BE(0) % partitions;
}

function partitionTag(account: string): string {
  return `{p${String(partitionOf(account)).padStart(2, '0')}}`;
}

/** Hash: how often one request has been started, and by whom last. Expires a minute past the request's deadline. */
export function requestRunsKey(account: string, requestId: string): string {
  return `svc:${partitionTag(account)}:runs:${requestId}`;
}

/** String: the account's version, a copy of the store's that may be missing. Expires an hour after its last use. */
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

/** Sorted set: the devices that came into being from one client address, by when (milliseconds). Expires in an hour. */
export function guestMintsKey(address: string): string {
  return `svc:guest-mints:${address}`;
}

/** Stream: the replies on their way to one ingress. Expires a minute after its ingress last renewed it. */
export function replyStreamKey(ingressId: string): string {
  return `svc:replies:${ingressId}`;
}

/** Stream: what is asked of one worker process (cancellations). Expires a minute after its worker last renewed it. */
export function controlStreamKey(workerId: string): string {
  return `svc:control:${workerId}`;
}

/** BullMQ puts this in front of every key of a queue: a tag for each, as its scripts span several keys. */
export function queuePrefix(queueName: string): string {
  return `svc:{${queueName}}`;
}
