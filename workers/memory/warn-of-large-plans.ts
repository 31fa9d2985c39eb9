import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Log } from '../../shared/process/log.ts';
import { accountBytes } from './estimate-memory.ts';
import { itemBytes } from './item-bytes.ts';

/** Warns of each plan on which one account can leave more in Redis than it may use, because then all other requests would be refused. */
export function warnOfLargePlans({
  plans,
  timeouts,
  memoryBytes,
  log,
}: Pick<PlanFile, 'plans' | 'timeouts'> & {
  /** What Redis may use; 0 if it is not known. */
  memoryBytes: number;
  log: Pick<Log, 'warn'>;
}): void {
  if (memoryBytes === 0) return;
  for (const [plan, limits] of Object.entries(plans)) {
    const bytes = accountBytes(limits, timeouts, itemBytes.redis);
    if (bytes === undefined || bytes <= memoryBytes) continue;
    const message =
      'One account on this plan can fill Redis: lower its requests per minute or per day, or raise maxmemory';
    log.warn({ plan, mebibytes: toMebibytes(bytes), redisMebibytes: toMebibytes(memoryBytes) }, message);
  }
}

const toMebibytes = (bytes: number) => Math.round(bytes / 1_048_576);
