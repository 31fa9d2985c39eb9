import { parseArgs } from 'node:util';

export const usageText = `Usage: npm run --silent reconcile [-- --repair] [-- --help]

Recomputes the usage of every account and month from the usage records, and compares it with the sums and the details (by day, model,
key and endpoint) in the store, and the sums with the counters in Redis for the current and the last month. The service may be in use meanwhile.

  --repair  repairs what differs, and compares it again
  --help    prints this text

Settings, from the environment: REDIS_URL, DATABASE_URL, PLAN_FILE, LOG_LEVEL, LOG_FORMAT.
Exit code: 0 if nothing differs (any more), 1 if something differs, 2 if the comparison failed.
`;

type ReconcileArguments = { repair: boolean; help: boolean };

/** Undefined if an argument is unknown. */
export function parseReconcileArguments(args: readonly string[]): ReconcileArguments | undefined {
  const options = { repair: { type: 'boolean', default: false }, help: { type: 'boolean', default: false } } as const;
  try {
    return { ...parseArgs({ args: [...args], options, strict: true, allowPositionals: false }).values };
  } catch {
    return undefined;
  }
}
