import { readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { createSeed } from '../../../shared/limits/seed.ts';
import { type PlanFile, parsePlanFile } from '../../../shared/plan-file/plan-file.ts';
import { createLog } from '../../../shared/process/log.ts';
import { openStore } from '../../../shared/process/open-store.ts';
import { connectForRequests } from '../../../shared/redis/connections.ts';
import { requestToken } from '../identity-provider.ts';
import { dataDirectory, notRunning, readRunningStack } from '../running-stack.ts';
import { createSeeding } from './seed-account.ts';
import { seedAccounts } from './seed-accounts.ts';

const usage = `Usage: npm run seed [-- --data <folder>]
Fills the running stack of npm start or npm run dev: twelve accounts with keys, usage from two months ago to this hour, and
batches. Sign in to the console as ada, grace or linus, or as olga, who is an operator. A second run adds only what is missing.
--data  the folder of the stack's data (default: .data/)`;

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
  const { url, databaseUrl, redisUrl, planFile } = service;
  await fetch(url).catch((cause: unknown) => {
    throw new Error(notRunning, { cause });
  });
  const plan = await readPlan(planFile);
  await using parts = new AsyncDisposableStack();
  const log = createLog({ level: 'warn', format: 'pretty', process: 'seed', forTerminal: true });
  const store = parts.use(await openStore(databaseUrl, { log }));
  const redis = parts.adopt(connectForRequests(redisUrl, log), (opened) => opened.disconnect());
  const seedAll = createSeeding({
    ...{ url, store, recount: createSeed({ redis, store: store.usage }) },
    tokenOf: (account, admin = false) => requestToken({ issuer, clientSecret, account, admin }),
    allowanceOf: (name) => plan.plans[name]?.tokensPerMonth,
    modelServers: Object.values(plan.backends).map((backend) => new URL(backend.url).origin),
    now: Date.now(),
    print: (line) => console.log(line),
  });
  await seedAll(seedAccounts);
  console.log(`Done. Sign in at ${url}/console as ${seedAccounts.map(({ name }) => name).join(', ')}, or as olga.`);
}

/** Only simulated models answer the requests of the seeds: with your own ones, they would cost time or money. */
async function readPlan(file: string): Promise<PlanFile> {
  const parsed = parsePlanFile(await readFile(file, 'utf8'));
  if ('issues' in parsed) throw new Error(`${file} is not valid. Check it with npm run check-plan.`);
  const { models } = parsed.planFile;
  const missing = seedAccounts.flatMap((account) => account.models).find(({ model }) => models[model] === undefined);
  if (missing === undefined) return parsed.planFile;
  throw new Error(`${file} has no model ${missing.model}. Only a stack with the simulated models can be seeded.`);
}
