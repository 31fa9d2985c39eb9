/** The bytes of an item without its content, and for each KiB of that. */
export type Bytes = { bytes: number; perKibibyte?: number };

/** Measured; `npm run bytes -- --write` writes them. */
export const itemBytes = {
  redis: {
    waiting: { bytes: 1_455, perKibibyte: 1_075 },
    running: { bytes: 1_865, perKibibyte: 1_056 },
    lineWaiting: { bytes: 1_497, perKibibyte: 1_056 },
    reply: { bytes: 72, perKibibyte: 1_135 },
    account: { bytes: 278 },
    device: { bytes: 310 },
    limitedKey: { bytes: 406 },
    activeAccount: { bytes: 1_777 },
    lease: { bytes: 1_403 },
    furtherLease: { bytes: 971 },
    endedMark: { bytes: 230 },
    keptAnswer: { bytes: 864, perKibibyte: 1_120 },
    usageEvent: { bytes: 692 },
    atRest: { bytes: 1_951_568 },
  },
  sqlite: {
    account: { bytes: 1_358 },
    device: { bytes: 1_298 },
    auditRecord: { bytes: 1_124 },
    batchResult: { bytes: 494, perKibibyte: 1_024 },
    usageRecord: { bytes: 1_432 },
    usageDetail: { bytes: 393 },
    usageHour: { bytes: 614 },
    usageTotal: { bytes: 172 },
  },
  mongodb: {
    account: { bytes: 1_376 },
    device: { bytes: 1_103 },
    auditRecord: { bytes: 1_111 },
    batchResult: { bytes: 433, perKibibyte: 1_024 },
    usageRecord: { bytes: 1_122 },
    usageDetail: { bytes: 1_315 },
    usageHour: { bytes: 1_475 },
    usageTotal: { bytes: 536 },
  },
} satisfies Record<string, Record<string, Bytes>>;

export type ItemBytes = {
  redis: Record<keyof typeof itemBytes.redis, Bytes>;
  sqlite: Record<keyof typeof itemBytes.sqlite, Bytes>;
  mongodb: Record<keyof typeof itemBytes.sqlite, Bytes>;
};
