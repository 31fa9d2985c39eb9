import { join, relative, resolve } from 'node:path';
import { aborted, shutdownSignal } from '../../shared/concurrency/shutdown.ts';
import { type StartedEngines, startEngines } from '../engine/start-engines.ts';
import { freePort } from './free-port.ts';
import { type OwnPlan, openOwnPlan } from './own-plan.ts';
import type { StackModel } from './plan.ts';
import { type TakenDirectory, takeDirectory } from './running-stack.ts';
import type { LogLine } from './service-process.ts';
import { type Stack, startStack } from './stack.ts';
import { parseStartOptions, type StartOptions, startUsage } from './start-options.ts';
import { startedAliases, startedBackends, startedModels, startedPrices } from './started-models.ts';

const enginePorts = [8084, 8085, 8086, 8087, 8088];
/** Own changes of `plans.yaml` stay beside these. */
const enginePlan = 'engine-plans.yaml';
const backendPlan = 'backend-plans.yaml';

const shutdown = AbortSignal.any([shutdownSignal(), endOfNpm()]);
/** The last warning of each process: it has several connections to a part that is away. */
const warned = new Map<string, string>();
/** The processes that Node has restarted. */
const restarted = new Set<string>();
const options = readArguments();
if (options === 'help') {
  console.log(startUsage);
} else if (options === undefined) {
  process.exitCode = 2;
} else {
  await run(options);
}

function readArguments() {
  try {
    return parseStartOptions(process.argv.slice(2));
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n${startUsage}`);
    return undefined;
  }
}

async function run(wishes: StartOptions): Promise<void> {
  const directory = resolve(wishes.data);
  try {
    await using taken = await takeDirectory(directory);
    const started = await Promise.race([start(directory, wishes), aborted(shutdown)]);
    // A start can wait for a part that is away. Its processes end with this one, and so does the lock, not before.
    if (started === undefined) process.exit();
    await using running = started;
    await introduce(running, taken);
    await aborted(shutdown);
    console.log('Stopping …');
    taken.withdraw();
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  }
  // Keep-alive connections of clients would keep the process alive.
  process.exit();
}

type Running = AsyncDisposable & { stack: Stack; engines: StartedEngines | undefined; own: OwnPlan | undefined };

async function start(directory: string, wishes: StartOptions): Promise<Running> {
  const { backends, engine, freePorts, watch } = wishes;
  await using started = new AsyncDisposableStack();
  const isOwn = backends.length > 0;
  const own = isOwn ? await openPlanOf(wishes, directory) : undefined;
  const servers = engine ? 'five engines, ' : isOwn ? '' : 'three simulated model servers, ';
  console.log(`Starting Redis, the identity provider, ${servers}an ingress and a worker …`);
  const engines = engine ? started.use(await startEngines(freePorts ? [] : enginePorts, console.log)) : undefined;
  const stack = started.use(
    await startStack({
      directory,
      watch,
      redisUrl: process.env.REDIS_URL || undefined,
      databaseUrl: process.env.DATABASE_URL || undefined,
      ports: freePorts ? { ingress: await freePort() } : usualPorts(engine || isOwn),
      modelServers: { firstTokenMs: 100, tokensPerSecond: 50 },
      models: startedModels,
      backends: startedBackends,
      ...(engines && { planName: enginePlan, backends: engines.backends, models: engines.models }),
      ...(own && { planFile: join(directory, backendPlan) }),
      aliases: startedAliases,
      prices: startedPrices,
      webhooks: true,
      // A restart waits for requests in flight. Half a minute is too long for a developer.
      env: { ...openTelemetryVariables(), ...own?.variables, ...(watch && { SHUTDOWN_GRACE_MS: '1000' }) },
      onLine: wishes.quiet ? () => {} : show,
    }),
  );
  const owned = started.move();
  return { stack, engines, own, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Says what the servers have, or that the file is used as it is. */
async function openPlanOf({ backends, writePlan }: StartOptions, directory: string): Promise<OwnPlan> {
  const file = join(directory, backendPlan);
  const variableOf = (name: string) => process.env[name];
  const own = await openOwnPlan({ file, wanted: backends, again: writePlan, variableOf });
  const shown = relative('', file);
  const said = own.found.length > 0 ? [`Wrote ${shown}.`] : [`Using ${shown} as it is. --write-plan writes it again.`];
  console.log([...own.found, ...said].join('\n'));
  return own;
}

/** Aborted when npm has ended: it passes on every signal except SIGKILL. */
function endOfNpm(): AbortSignal {
  const npm = process.ppid;
  const ended = new AbortController();
  const look = () => process.ppid !== npm && ended.abort();
  if (process.env.npm_lifecycle_event !== undefined) setInterval(look, 500).unref();
  return ended.signal;
}

/** To see traces of the stack. */
function openTelemetryVariables(): Record<string, string> {
  const given = Object.entries(process.env).flatMap(([name, value]) =>
    name.startsWith('OTEL_') && value !== undefined ? [[name, value] as const] : [],
  );
  return Object.fromEntries(given);
}

/** `without`: the simulated model servers, which no one calls then. */
function usualPorts(without: boolean) {
  const operations = Number(process.env.OPS_PORT ?? 8081);
  return {
    ingress: Number(process.env.PORT ?? 8080),
    identity: 8083,
    ...(!without && { models: [8084, 8085, 8086] as [number, number, number] }),
    operations: [operations, operations + 1] as [number, number],
  };
}

async function introduce({ stack, engines, own }: Running, { announce }: TakenDirectory): Promise<void> {
  const { issuer, clientSecret } = stack.identity;
  const { directory, redisUrl, databaseUrl, planFile } = stack;
  const url = stack.ingresses[0]?.url ?? stack.baseUrl;
  const started = [...stack.started(), ...(engines?.engines ?? [])];
  const processes = started.map(({ pid, command }) => ({ pid, command }));
  announce({ issuer, clientSecret, service: { url, redisUrl, databaseUrl, planFile }, processes });
  const servers = own ? Object.values(own.planFile.backends) : (engines?.engines ?? stack.modelServers);
  const token = await stack.identity.token('alice');
  const headers = `-H "authorization: Bearer $KEY" -H 'content-type: application/json'`;
  console.log(`
API                ${url}
                   for OpenAI's SDKs ${url}/openai/v1, for Anthropic's ${url}
Models             ${modelsShown(own?.planFile.models ?? engines?.models ?? startedModels)}
Console            ${url}/console (sign in with any name; olga is an operator)
Operations         ${stack.ingresses[0]?.operationsUrl}/readyz (ingress), ${stack.workers[0]?.operationsUrl}/readyz (worker)
Identity provider  ${issuer}
Model servers      ${servers.map((server) => server.url).join(', ')}
Redis              ${stack.redisUrl.replace(/\/\/[^@/]*@/, '//')}
Data               ${relative('', directory)}/

A sign-in token for the account "alice" (another: npm run --silent token -- bob):

${token}

Create a key for a new account and send a first request, in another terminal:

KEY=$(curl -s ${url}/v1/keys/developer -X POST -H "authorization: Bearer $(npm run --silent token -- $(date +%s))" \\
  -H 'content-type: application/json' -d '{}' | sed 's/.*"key":"\\([^"]*\\)".*/\\1/')
curl -s ${url}/v1/chat/completions ${headers} \\
  -d '{"model":"small-chat","messages":[{"role":"user","content":"Hello"}]}'

The vector of a text:

curl -s ${url}/openai/v1/embeddings ${headers} \\
  -d '{"model":"small-embed","input":"Hello"}'

ready ${url}`);
}

function modelsShown(served: Readonly<Record<string, Pick<StackModel, 'endpoints'>>>): string {
  const models = Object.entries(served).map(([name, { endpoints = [] }]) => `${name} (${endpoints.join(', ')})`);
  const aliases = Object.entries(startedAliases).map(([alias, model]) => `${alias} (${model})`);
  return [...models, ...aliases].join('\n                   ');
}

/** Shows warnings and errors of a process, and what Node prints when it watches one. The rest of the log is not needed here. */
function show(from: string, { level, msg, ...fields }: LogLine): void {
  if (level === undefined || (restarted.has(from) && msg === 'ready')) console.log(`${from}: ${msg}`);
  if (level === undefined) restarted.add(from);
  if (level === 'warn' || level === 'error' || level === 'fatal') {
    const { err } = fields as { err?: { message?: string } }; // pino's form of an error
    const warning = `${from}: ${msg}${err?.message === undefined ? '' : ` (${err.message})`}`;
    if (warned.get(from) !== warning) console.error(warning);
    warned.set(from, warning);
  }
}
