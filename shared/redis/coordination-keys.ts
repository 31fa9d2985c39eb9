/* The Redis keys of what processes tell each other: who is there, how much waits, what a page consists of. */

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
