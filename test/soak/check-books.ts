import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { openStore } from '../../shared/process/open-store.ts';
import type { UsageRecord } from '../../shared/store/usage/usage-record.ts';
import type { Stack } from '../stack/stack.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { compareBooks } from './compare-books.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const nothingDiffers = 0;
const driftFoundWithinMs = 120_000;

/** `wrong` has one message per fault: by request, and by the monthly sums in Redis and the store. `report` has the details of the sums. */
type Checked = { found: Record<string, number>; report: string; wrong: string[] };

/** Compares the clients' answers, the usage records and the calls. Call it after all traffic has ended. */
export async function checkBooks(stack: Stack, answered: readonly string[]): Promise<Checked> {
  const databaseUrl = `sqlite:${stack.directory}/store.sqlite`;
  await using store = await openStore(databaseUrl, recordedLog());
  const records = new Map<string, UsageRecord>();
  for (const id of answered) {
    const record = await store.usage.findUsageRecord(id);
    if (record !== undefined) records.set(id, record);
  }
  const calls = stack.modelServers.flatMap((server) => server.calls());
  const found = compareBooks({ answered, records, calls });
  const wrong = Object.entries(found).flatMap(([what, count]) => (count > 0 ? [`${what}: ${count}`] : []));
  const { report, code } = await findDrift(stack, databaseUrl);
  if (code !== nothingDiffers) wrong.push(`drift: the comparison exited with ${code}`);
  return { found: { 'answered whole': answered.length, calls: calls.length, ...found }, report, wrong };
}

/** Runs the program that operators use to find drift. */
async function findDrift(
  { directory, redisUrl }: Stack,
  databaseUrl: string,
): Promise<{ report: string; code: number }> {
  const child = spawn(process.execPath, ['workers/usage/reconcile-main.ts'], {
    cwd: root,
    env: { REDIS_URL: redisUrl, DATABASE_URL: databaseUrl, PLAN_FILE: `${directory}/plans.yaml` },
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: driftFoundWithinMs,
  });
  const [report, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  return { report: report.trimEnd(), code };
}
