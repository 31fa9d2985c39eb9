import { relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { aborted, shutdownSignal } from '../../shared/concurrency/shutdown.ts';
import { type StartedEngines, startEngines } from '../engine/start-engines.ts';
import { freePort } from './free-port.ts';
import type { StackModel } from './plan.ts';
import { dataDirectory, type TakenDirectory, takeDirectory } from './running-stack.ts';
import type { LogLine } from './service-process.ts';
import { type Stack, startStack } from './stack.ts';
import { startedAliases, startedBackends, startedModels, startedPrices } from './started-models.ts';

const usage = `Usage: npm start [-- --quiet] [--watch] [--engine] [--data <folder>] [--free-ports]
Runs the whole service on this machine until Ctrl-C; its data is kept in .data/.
--quiet       prints no warnings and errors of the ingress and the worker
--watch       restarts the ingress and the worker when their source changes (the same as npm run dev)
--engine      has llama.cpp's server with small random models in place of the simulated model servers (needs Python)
--data        keeps the data in this folder
--free-ports  listens on free ports instead of the usual ones; the plan file keeps those of the model servers`;

const enginePorts = [8084, 8085, 8086, 8087, 8088];
/** Own changes of `plans.yaml` stay beside it. */
const enginePlan = 'engine-plans.yaml';

const shutdown = AbortSignal.any([shutdownSignal(), endOfNpm()]);
/** The last warning of each process: it has several connections to a part that is away. */
const warned = new Map<string, string>();
/** The processes that Node has restarted. */
const restarted = new Set<string>();
const options = readArguments();
if (options?.help) {
  console.log(usage);
} else if (options === undefined) {
  process.exitCode = 2;
} else {
  await run(options);
}

type Options = { quiet: boolean; watch: boolean; engine: boolean; data: string; 'free-ports': boolean };

function readArguments() {
  try {
    const { values } = parseArgs({
      options: {
        quiet: { type: 'boolean', default: false },
        watch: { type: 'boolean', default: false },
        engine: { type: 'boolean', default: false },
        data: { type: 'string', default: dataDirectory },
        'free-ports': { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
    return values;
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n${usage}`);
    return undefined;
  }
}

async function run(wishes: Options): Promise<void> {
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

type Running = AsyncDisposable & { stack: Stack; engines: StartedEngines | undefined };

async function start(directory: string, { quiet, watch, engine, 'free-ports': freePorts }: Options): Promise<Running> {
  await using started = new AsyncDisposableStack();
  const servers = engine ? 'five engines' : 'three simulated model servers';
  console.log(`Starting Redis, the identity provider, ${servers}, an ingress and a worker …`);
  const engines = engine ? started.use(await startEngines(freePorts ? [] : enginePorts, console.log)) : undefined;
  const stack = started.use(
    await startStack({
      directory,
      watch,
      redisUrl: process.env.REDIS_URL || undefined,
      databaseUrl: process.env.DATABASE_URL || undefined,
      ports: freePorts ? { ingress: await freePort() } : usualPorts(engine),
      modelServers: { firstTokenMs: 100, tokensPerSecond: 50 },
      models: startedModels,
      backends: startedBackends,
      ...(engines && { planName: enginePlan, backends: engines.backends, models: engines.models }),
      aliases: startedAliases,
      prices: startedPrices,
      webhooks: true,
      // A restart waits for requests in flight. Half a minute is too long for a developer.
      env: { ...openTelemetryVariables(), ...(watch && { SHUTDOWN_GRACE_MS: '1000' }) },
      onLine: quiet ? () => {} : show,
    }),
  );
  const owned = started.move();
  return { stack, engines, [Symbol.asyncDispose]: () => owned.disposeAsync() };
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

function usualPorts(engine: boolean) {
  const operations = Number(process.env.OPS_PORT ?? 8081);
  return {
    ingress: Number(process.env.PORT ?? 8080),
    identity: 8083,
    ...(!engine && { models: [8084, 8085, 8086] as [number, number, number] }),
    operations: [operations, operations + 1] as [number, number],
  };
}

async function introduce({ stack, engines }: Running, { announce }: TakenDirectory): Promise<void> {
  const { issuer, clientSecret } = stack.identity;
  const { directory, redisUrl, databaseUrl, planFile } = stack;
  const url = stack.ingresses[0]?.url ?? stack.baseUrl;
  const started = [...stack.started(), ...(engines?.engines ?? [])];
  const processes = started.map(({ pid, command }) => ({ pid, command }));
  announce({ issuer, clientSecret, service: { url, redisUrl, databaseUrl, planFile }, processes });
  const servers = engines?.engines ?? stack.modelServers;
  const token = await stack.identity.token('alice');
  const headers = `-H "authorization: Bearer $KEY" -H 'content-type: application/json'`;
  console.log(`
API                ${url}
                   for OpenAI's SDKs ${url}/openai/v1, for Anthropic's ${url}
Models             ${modelsShown(engines?.models ?? startedModels)}
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

function modelsShown(served: Readonly<Record<string, StackModel>>): string {
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
