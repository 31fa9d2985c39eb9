/** The bytes of an item without its content, and for each KiB of that. */
export type Bytes = { bytes: number; perKibibyte?: number };

/** Measured; `npm run bytes -- --write` writes them. */
export const itemBytes = {
  redis: {
    waiting: { bytes: 1_455, perKibibyte: 1_075 },
    running: { bytes: 1_819, perKibibyte: 1_061 },
    lineWaiting: { bytes: 1_543, perKibibyte: 1_051 },
    reply: { bytes: 74, perKibibyte: 1_134 },
    account: { bytes: 262 },
    device: { bytes: 294 },
    limitedKey: { bytes: 406 },
    activeAccount: { bytes: 1_763 },
    lease: { bytes: 1_275 },
    furtherLease: { bytes: 844 },
    endedMark: { bytes: 230 },
    keptAnswer: { bytes: 863, perKibibyte: 1_120 },
    usageEvent: { bytes: 692 },
    atRest: { bytes: 1_947_288 },
  },
  sqlite: {
    account: { bytes: 1_026 },
    device: { bytes: 1_300 },
    auditRecord: { bytes: 713 },
    batchResult: { bytes: 494, perKibibyte: 1_024 },
    usageRecord: { bytes: 1_423 },
    usageDetail: { bytes: 377 },
    usageTotal: { bytes: 170 },
  },
  mongodb: {
    account: { bytes: 1_005 },
    device: { bytes: 1_103 },
    auditRecord: { bytes: 657 },
    batchResult: { bytes: 433, perKibibyte: 1_024 },
    usageRecord: { bytes: 1_122 },
    usageDetail: { bytes: 1_003 },
    usageTotal: { bytes: 536 },
  },
} satisfies Record<string, Record<string, Bytes>>;

export type ItemBytes = {
  redis: Record<keyof typeof itemBytes.redis, Bytes>;
  sqlite: Record<keyof typeof itemBytes.sqlite, Bytes>;
  mongodb: Record<keyof typeof itemBytes.sqlite, Bytes>;
};
