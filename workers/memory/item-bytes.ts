/** The bytes of an item without a body, and for each KiB of the body that it has. */
export type Bytes = { bytes: number; perKibibyte?: number };

/** Measured; `npm run bytes -- --write` writes them. */
export const itemBytes = {
  redis: {
    waiting: { bytes: 1_456, perKibibyte: 1_075 },
    running: { bytes: 1_814, perKibibyte: 1_066 },
    lineWaiting: { bytes: 1_497, perKibibyte: 1_056 },
    reply: { bytes: 73, perKibibyte: 1_134 },
    account: { bytes: 262 },
    device: { bytes: 294 },
    activeAccount: { bytes: 1_874 },
    lease: { bytes: 1_402 },
    furtherLease: { bytes: 972 },
    endedMark: { bytes: 230 },
    keptAnswer: { bytes: 720, perKibibyte: 1_120 },
    usageEvent: { bytes: 692 },
    atRest: { bytes: 1_960_232 },
  },
  sqlite: {
    account: { bytes: 961 },
    device: { bytes: 1_194 },
    auditRecord: { bytes: 641 },
    batchResult: { bytes: 442, perKibibyte: 1_024 },
    usageRecord: { bytes: 1_423 },
    usageDetail: { bytes: 500 },
    usageTotal: { bytes: 295 },
  },
  mongodb: {
    account: { bytes: 636 },
    device: { bytes: 786 },
    auditRecord: { bytes: 500 },
    batchResult: { bytes: 371, perKibibyte: 1_024 },
    usageRecord: { bytes: 1_123 },
    usageDetail: { bytes: 1_003 },
    usageTotal: { bytes: 590 },
  },
} satisfies Record<string, Record<string, Bytes>>;

export type ItemBytes = {
  redis: Record<keyof typeof itemBytes.redis, Bytes>;
  sqlite: Record<keyof typeof itemBytes.sqlite, Bytes>;
  mongodb: Record<keyof typeof itemBytes.sqlite, Bytes>;
};
