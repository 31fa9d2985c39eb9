import { Registry } from 'prom-client';
import { openStore } from '../../../shared/process/open-store.ts';
import { connectForWork } from '../../../shared/redis/connections.ts';
import { createWorkerMetrics } from '../../../workers/metrics.ts';
import { createUsageDrainer } from '../../../workers/usage/usage-drainer.ts';
import { recordedLog } from '../../support/recorded-log.ts';

/** A worker that only drains. It prints a line before and after each batch that it writes to the store. */
const [redisUrl = '', storeUrl = '', workerId = ''] = process.argv.slice(2);
const { log } = recordedLog();
const store = await openStore(storeUrl, { log });

createUsageDrainer({
  redis: connectForWork(redisUrl, log),
  store: {
    async recordUsage(records) {
      process.stdout.write('begun\n');
      await store.usage.recordUsage(records);
      process.stdout.write('done\n');
    },
    recordRefusals: store.usage.recordRefusals,
    removeUsageBefore: async () => 0,
    removeOldHours: async () => 0,
  },
  workerId,
  metrics: createWorkerMetrics(new Registry()),
  log,
  monthsKept: () => 24,
  expireLeases: async () => ({ ended: 0, nextMs: undefined }),
  shareKeptRoom: async () => {},
});
