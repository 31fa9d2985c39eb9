import { z } from 'zod';
import { controlStreamLengthMax } from '../../shared/jobs/cancellation.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { controlStreamKey } from '../../shared/redis/keys.ts';

const fieldsSchema = z.object({ accounts: z.string() });
const accountsSchema = z.array(z.string());

/** Asks a worker to run the batches of these accounts. False if the worker is gone. */
export type AssignAccounts = (worker: string, accounts: readonly string[]) => Promise<boolean>;

/** `redis` is the one with the control streams. */
export function createAssignAccounts(redis: Redis): AssignAccounts {
  return async function assignAccounts(worker, accounts) {
    const entry = ['accounts', JSON.stringify(accounts)];
    const length = ['MAXLEN', '~', controlStreamLengthMax] as const;
    return (await redis.xadd(controlStreamKey(worker), 'NOMKSTREAM', ...length, '*', ...entry)) !== null;
  };
}

/** Returns the accounts that an entry of a control stream assigns. Empty for any other entry. */
export function decodeAssignment(fields: Readonly<Record<string, string>>): string[] {
  const entry = fieldsSchema.safeParse(fields);
  if (!entry.success) return [];
  try {
    return accountsSchema.safeParse(JSON.parse(entry.data.accounts)).data ?? [];
  } catch {
    return [];
  }
}
