/** The bytes of an item without a body, and for each KiB of the body that it has. */
export type Bytes = { bytes: number; perKibibyte?: number };

/** Measured; `npm run bytes -- --write` writes them. */
export const itemBytes = {
  redis: {
    waiting: { bytes: 1_541, perKibibyte: 1_065 },
    running: { bytes: 1_865, perKibibyte: 1_056 },
    lineWaiting: { bytes: 1_497, perKibibyte: 1_056 },
    reply: { bytes: 72, perKibibyte: 1_136 },
    account: { bytes: 262 },
    device: { bytes: 294 },
    activeAccount: { bytes: 1_873 },
    lease: { bytes: 1_401 },
    furtherLease: { bytes: 977 },
    endedMark: { bytes: 214 },
    usageEvent: { bytes: 593 },
    atRest: { bytes: 1_946_920 },
  },
  sqlite: {
    account: { bytes: 952 },
    device: { bytes: 1_190 },
    auditRecord: { bytes: 633 },
    batchResult: { bytes: 442, perKibibyte: 1_024 },
    usageRecord: { bytes: 981 },
    usageDetail: { bytes: 502 },
    usageTotal: { bytes: 299 },
  },
  mongodb: {
    account: { bytes: 636 },
    device: { bytes: 786 },
    auditRecord: { bytes: 500 },
    batchResult: { bytes: 371, perKibibyte: 1_024 },
    usageRecord: { bytes: 850 },
    usageDetail: { bytes: 1_003 },
    usageTotal: { bytes: 590 },
  },
} satisfies Record<string, Record<string, Bytes>>;

export type ItemBytes = {
  redis: Record<keyof typeof itemBytes.redis, Bytes>;
  sqlite: Record<keyof typeof itemBytes.sqlite, Bytes>;
  mongodb: Record<keyof typeof itemBytes.sqlite, Bytes>;
};
