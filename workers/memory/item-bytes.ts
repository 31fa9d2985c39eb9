/** The bytes of an item without a body, and for each KiB of the body that it has. */
export type Bytes = { bytes: number; perKibibyte?: number };

/** Measured; `npm run bytes -- --write` writes them. */
export const itemBytes = {
  redis: {
    waiting: { bytes: 1_495, perKibibyte: 1_070 },
    running: { bytes: 1_865, perKibibyte: 1_056 },
    lineWaiting: { bytes: 1_497, perKibibyte: 1_056 },
    reply: { bytes: 73, perKibibyte: 1_135 },
    account: { bytes: 263 },
    device: { bytes: 294 },
    limitedKey: { bytes: 342 },
    activeAccount: { bytes: 1_883 },
    lease: { bytes: 1_404 },
    furtherLease: { bytes: 972 },
    endedMark: { bytes: 231 },
    keptAnswer: { bytes: 869, perKibibyte: 1_120 },
    usageEvent: { bytes: 692 },
    atRest: { bytes: 1_992_392 },
  },
  sqlite: {
    account: { bytes: 1_139 },
    device: { bytes: 1_378 },
    auditRecord: { bytes: 637 },
    batchResult: { bytes: 442, perKibibyte: 1_024 },
    usageRecord: { bytes: 1_432 },
    usageDetail: { bytes: 383 },
    usageTotal: { bytes: 170 },
  },
  mongodb: {
    account: { bytes: 788 },
    device: { bytes: 886 },
    auditRecord: { bytes: 500 },
    batchResult: { bytes: 371, perKibibyte: 1_024 },
    usageRecord: { bytes: 1_123 },
    usageDetail: { bytes: 1_003 },
    usageTotal: { bytes: 536 },
  },
} satisfies Record<string, Record<string, Bytes>>;

export type ItemBytes = {
  redis: Record<keyof typeof itemBytes.redis, Bytes>;
  sqlite: Record<keyof typeof itemBytes.sqlite, Bytes>;
  mongodb: Record<keyof typeof itemBytes.sqlite, Bytes>;
};
