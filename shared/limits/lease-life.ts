/**
 * Life of a started lease after its last renewal, in milliseconds, and how often its worker renews it (contract.md#n2-heartbeat,
 * decisions.md#leases-by-heartbeat).
 */
export const leaseLifeMs = 60_000;
export const renewLeasesEveryMs = 20_000;

/**
 * Grace period of a lease, in milliseconds, before it is ended: for an admitted lease past `queue_ms`, for a started one past its request's
 * deadline, no matter how often it is renewed. Both leave time for its process to settle it. A line of a batch may be settled a day later:
 * its result is charged even if all workers were unavailable for long.
 */
export const leaseGraceMs = { admitted: 30_000, started: { interactive: 60_000, batch: 86_400_000 } } as const;

/**
 * Life of a lease from its start, if it is not renewed. A line's lease is not renewed: its job outlives every worker, and the next
 * worker continues it.
 */
export const startedLifeMs = { interactive: leaseLifeMs, batch: Number.MAX_SAFE_INTEGER } as const;

/**
 * Life of a lease after its stream was interrupted (contract.md#n5-streaming-mark): its ingress settles it at once, unless the ingress was
 * killed too.
 */
export const interruptedLifeMs = 30_000;

/** How long a request is remembered past its deadline, so that no part of it can run a second time. */
export const endedLifeMs = 3_600_000;

/**
 * How long a released request is remembered. An admission that is executed late is a few minutes late at most. A line of a batch may have a
 * job that a worker takes much later.
 */
export const releasedLifeMs = { interactive: 600_000, batch: endedLifeMs } as const;
