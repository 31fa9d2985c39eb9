import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { aborted, shutdownSignal } from '../../shared/shutdown.ts';
import type { LogLine } from './service-process.ts';
import { type Stack, startStack } from './stack.ts';
import { dataDirectory as directory, standingFile } from './standing.ts';

const usage =
  'Usage: npm start [-- --quiet]\nRuns the whole service on this machine until Ctrl-C; its data is kept in .data/.';

const shutdown = shutdownSignal();
const [argument] = process.argv.slice(2);
if (argument === '--help') {
  console.log(usage);
} else if (argument !== undefined && argument !== '--quiet') {
  console.error(`${argument} is not known.\n${usage}`);
  process.exitCode = 2;
} else {
  await run();
}

async function run(): Promise<void> {
  try {
    console.log('Starting Redis, the identity provider, three simulated model servers, an ingress and a worker …');
    await using stack = await startStack({
      directory,
      redisUrl: process.env.REDIS_URL || undefined,
      databaseUrl: process.env.DATABASE_URL || undefined,
      ports: {
        ingress: Number(process.env.PORT ?? 8080),
        identity: 9100,
        models: [9101, 9102, 9103],
        operations: [Number(process.env.OPS_PORT ?? 9090), 9091],
      },
      modelServers: { firstTokenMs: 100, tokensPerSecond: 50 },
      onLine: argument === '--quiet' ? () => {} : show,
    });
    await introduce(stack);
    await aborted(shutdown);
    console.log('Stopping …');
    await rm(join(directory, standingFile), { force: true });
  } catch (error) {
    const inUse = error instanceof Error && 'code' in error && error.code === 'EADDRINUSE';
    console.error(`${error instanceof Error ? error.message : error}${inUse ? ' (does another stack run here?)' : ''}`);
    process.exitCode = 1;
  }
  // Keep-alive connections of those who used the stand-ins would hold the process.
  process.exit();
}

async function introduce(stack: Stack): Promise<void> {
  const { issuer, clientSecret } = stack.identity;
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, standingFile), JSON.stringify({ issuer, clientSecret }), { mode: 0o600 });
  const url = stack.ingresses[0]?.url ?? stack.baseUrl;
  const token = await stack.identity.token('alice');
  console.log(`
API                ${url}
Console            ${url}/console (sign in by any name; olga is an operator)
Operations         ${stack.ingresses[0]?.operationsUrl}/readyz (ingress), ${stack.workers[0]?.operationsUrl}/readyz (worker)
Identity provider  ${issuer}
Model servers      ${stack.modelServers.map((server) => server.url).join(', ')}
Redis              ${stack.redisUrl.replace(/\/\/[^@/]*@/, '//')}
Data               .data/

A sign-in token for the account "alice" (another: npm run --silent token -- bob):

${token}

Mint a key with it and ask a first question, in another terminal:

KEY=$(curl -s ${url}/v1/keys/developer -X POST -H "authorization: Bearer $(npm run --silent token -- $(date +%s))" \\
  -H 'content-type: application/json' -d '{}' | sed 's/.*"key":"\\([^"]*\\)".*/\\1/')
curl -s ${url}/v1/chat/completions -H "authorization: Bearer $KEY" -H 'content-type: application/json' \\
  -d '{"model":"small-chat","messages":[{"role":"user","content":"Hello"}]}'

ready ${url}`);
}

/** What goes wrong in a process is shown as it happens; the rest of its log is of no use on this terminal. */
function show(from: string, { level, msg, ...fields }: LogLine): void {
  if (level === 'warn' || level === 'error' || level === 'fatal') {
    const { err } = fields as { err?: { message?: string } }; // pino's form of an error
    console.error(`${from}: ${msg}${err?.message === undefined ? '' : ` (${err.message})`}`);
  }
}
