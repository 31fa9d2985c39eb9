import { parseArgs } from 'node:util';
import { openStore } from '../../../shared/process/open-store.ts';
import { requestToken } from '../identity-provider.ts';
import { dataDirectory, notRunning, readRunningStack } from '../running-stack.ts';
import { createSeedAccount, type SeedAccount } from './seed-account.ts';

const usage = `Usage: npm run seed [-- --data <folder>]
Fills the running stack of npm start or npm run dev: accounts with keys, usage of the last three months, and batches. Sign
in to the console as ada, grace or linus, or as olga, who is an operator. A second run adds only what is missing.
--data  the folder of the stack's data (default: .data/)`;

const [small, medium, large] = [
  { model: 'small-chat', tier: 'guest' },
  { model: 'medium-chat', tier: 'standard' },
  { model: 'large-chat', tier: 'premium' },
];
const accounts: readonly SeedAccount[] = [
  {
    ...{ name: 'ada', plan: 'pro', models: [small, medium, large], rotates: true },
    ...{ requestsPerDay: 40, requestsNow: 12, batches: ['completed', 'failed'] },
  },
  {
    ...{ name: 'grace', plan: 'free', models: [small, medium], rotates: false },
    ...{ requestsPerDay: 15, requestsNow: 6, batches: ['completed', 'cancelled'] },
  },
  {
    ...{ name: 'linus', plan: 'free', models: [small], rotates: false },
    ...{ requestsPerDay: 4, requestsNow: 2, batches: [] },
  },
];

try {
  const { values } = parseArgs({
    options: { data: { type: 'string', default: dataDirectory }, help: { type: 'boolean', default: false } },
  });
  if (values.help) console.log(usage);
  else await seed(values.data);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function seed(data: string): Promise<void> {
  const { service, issuer, clientSecret } = await readRunningStack(data);
  if (service === undefined) throw new Error('This stack runs in containers. Only one of npm start can be seeded.');
  const { url, databaseUrl } = service;
  await fetch(url).catch((cause: unknown) => {
    throw new Error(notRunning, { cause });
  });
  await using store = await openStore(databaseUrl, { log: { warn: (_, message) => console.error(message) } });
  const seedAccount = createSeedAccount({
    ...{ url, store },
    tokenOf: (account, admin = false) => requestToken({ issuer, clientSecret, account, admin }),
    pastMonths: [monthsAgo(2), monthsAgo(1)],
    print: (line) => console.log(line),
  });
  for (const account of accounts) await seedAccount(account);
  console.log(`Done. Sign in at ${url}/console as ${accounts.map(({ name }) => name).join(', ')}, or as olga.`);
}

/** `YYYY-MM`, in UTC. */
function monthsAgo(count: number): string {
  const now = new Date();
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - count)).toISOString().slice(0, 7);
}
