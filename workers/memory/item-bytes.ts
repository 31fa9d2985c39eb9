/** The bytes of an item without a body, and for each KiB of the body that it has. */
export type Bytes = { bytes: number; perKibibyte?: number };

/** Measured; `npm run bytes -- --write` writes them. */
export const itemBytes = {
  redis: {
    waiting: { bytes: 1_424, perKibibyte: 1_075 },
    running: { bytes: 1_814, perKibibyte: 1_066 },
    lineWaiting: { bytes: 1_465, perKibibyte: 1_056 },
    reply: { bytes: 73, perKibibyte: 1_134 },
    account: { bytes: 262 },
    device: { bytes: 294 },
    activeAccount: { bytes: 1_873 },
    lease: { bytes: 1_402 },
    furtherLease: { bytes: 972 },
    endedMark: { bytes: 214 },
    usageEvent: { bytes: 593 },
    atRest: { bytes: 1_946_856 },
  },
  sqlite: {
    account: { bytes: 954 },
    device: { bytes: 1_200 },
    auditRecord: { bytes: 635 },
    batchResult: { bytes: 442, perKibibyte: 1_024 },
    usageRecord: { bytes: 975 },
    usageDetail: { bytes: 115 },
    usageTotal: { bytes: 152 },
  },
  mongodb: {
    account: { bytes: 636 },
    device: { bytes: 786 },
    auditRecord: { bytes: 500 },
    batchResult: { bytes: 371, perKibibyte: 1_024 },
    usageRecord: { bytes: 813 },
    usageDetail: { bytes: 0 },
    usageTotal: { bytes: 658 },
  },
} satisfies Record<string, Record<string, Bytes>>;

export type ItemBytes = {
  redis: Record<keyof typeof itemBytes.redis, Bytes>;
  sqlite: Record<keyof typeof itemBytes.sqlite, Bytes>;
  mongodb: Record<keyof typeof itemBytes.sqlite, Bytes>;
};
