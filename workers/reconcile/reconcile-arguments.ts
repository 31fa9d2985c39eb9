import { parseArgs } from 'node:util';

export const usageText = `Usage: npm run --silent reconcile [-- --repair] [-- --help]

Adds up the usage records of every account and month again, compares what comes out with the sums that the store keeps, and
those with what Redis counts of this month and the last. The service may be in use meanwhile.

  --repair  puts right what differs, and compares that again
  --help    prints this

Settings, from the environment: REDIS_URL, DATABASE_URL, PLAN_FILE, LOG_LEVEL.
Exit code: 0 where nothing differs (any more), 1 where something does, 2 where it could not be found out.
`;

type ReconcileArguments = { repair: boolean; help: boolean };

/** Undefined where there is any that it does not know. */
export function parseReconcileArguments(args: readonly string[]): ReconcileArguments | undefined {
  const options = { repair: { type: 'boolean', default: false }, help: { type: 'boolean', default: false } } as const;
  try {
    return { ...parseArgs({ args: [...args], options, strict: true, allowPositionals: false }).values };
  } catch {
    return undefined;
  }
}
