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
