/* The Redis keys of what processes tell each other: who is there and does what, how much waits, what a page consists of. */

/** Hash: each process of the fleet, as it has described itself. Expires seconds after its last use. */
export const fleetKey = 'svc:fleet';

/** Hash: what each process does. Its tag is the name of the hash of processes, so both are in one node. Expires with it. */
export const fleetLoadKey = 'svc:fleet-load:{svc:fleet}';

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
