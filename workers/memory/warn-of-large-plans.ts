import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { guestPlan } from '../../shared/plan-file/plan-file-schema.ts';
import type { Log } from '../../shared/process/log.ts';
import { accountBytes, networkBytes } from './estimate-memory.ts';
import { itemBytes } from './item-bytes.ts';

/**
 * Warns of each plan on which one account, or the devices of one network, can leave more in Redis than it may use, because then all other
 * requests would be refused. Names the plans that have no such bound.
 */
export function warnOfLargePlans({
  plans,
  guestMintsPerHour,
  timeouts,
  memoryBytes,
  log,
}: Pick<PlanFile, 'plans' | 'guestMintsPerHour' | 'timeouts'> & {
  /** What Redis may use; 0 if it is not known. */
  memoryBytes: number;
  log: Pick<Log, 'info' | 'warn'>;
}): void {
  const unbounded: string[] = [];
  for (const [plan, limits] of Object.entries(plans)) {
    const bytes =
      plan === guestPlan
        ? networkBytes({ ...limits, guestMintsPerHour }, timeouts, itemBytes.redis)
        : accountBytes(limits, timeouts, itemBytes.redis);
    if (bytes === undefined) unbounded.push(plan);
    else if (memoryBytes > 0 && bytes > memoryBytes) {
      const sizes = { mebibytes: toMebibytes(bytes), redisMebibytes: toMebibytes(memoryBytes) };
      log.warn({ plan, ...sizes }, plan === guestPlan ? ofNetworks : ofAccounts);
    }
  }
  if (unbounded.length > 0) log.info({ plans: unbounded }, ofUnbounded);
}

const ofAccounts =
  'One account on this plan can fill Redis: lower its requests per minute or per day, or raise maxmemory';
const ofNetworks =
  'The devices of one network can fill Redis: lower guest_mints_per_hour or the requests of this plan, or raise maxmemory';
const ofUnbounded =
  'Accounts on these plans can fill Redis with the marks of ended requests: requests_per_minute and requests_per_day bound them';

const toMebibytes = (bytes: number) => Math.round(bytes / 1_048_576);
