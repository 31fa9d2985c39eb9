/**
 * What a lease lives past its time, in milliseconds, before it is ended by whoever comes first: an admitted one past
 * `queue_ms`, one that has started past its request's deadline. Both leave time for those who end it in words;
 * for a line of a batch those may come a day later, for its result is charged however long all workers were away.
 */
export const leaseGraceMs = { admitted: 30_000, started: { interactive: 60_000, batch: 86_400_000 } } as const;

/** How long a request is remembered past its deadline, so that nothing of it can be carried out a second time. */
export const endedLifeMs = 3_600_000;
