import { join, relative, resolve } from 'node:path';
import { aborted, shutdownSignal } from '../../shared/concurrency/shutdown.ts';
import { type StartedEngines, startEngines } from '../engine/start-engines.ts';
import { demoAccount, openDemoKey } from './demo-key.ts';
import { freePort, portsNear } from './free-port.ts';
import { detailLines, openBrowser, readyLines } from './introduce.ts';
import { createLogWords } from './log-words.ts';
import { type OwnPlan, openOwnPlan } from './own-plan.ts';
import { type TakenDirectory, takeDirectory } from './running-stack.ts';
import type { LogLine } from './service-process.ts';
import { readModelPorts, type Stack, startStack } from './stack.ts';
import { parseStartOptions, type StartOptions, startUsage } from './start-options.ts';
import { startedAliases, startedBackends, startedModels, startedPrices } from './started-models.ts';

const enginePorts = [8084, 8085, 8086, 8087, 8088];
/** Own changes of `plans.yaml` stay beside these. */
const enginePlan = 'engine-plans.yaml';
const backendPlan = 'backend-plans.yaml';

const shutdown = AbortSignal.any([shutdownSignal(), endOfNpm()]);
const logWords = createLogWords();
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
    await introduce(running, taken, wishes);
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
  const engines = engine
    ? started.use(await startEngines(freePorts ? [] : await portsNear(enginePorts), console.log))
    : undefined;
  const stack = started.use(
    await startStack({
      directory,
      watch,
      redisUrl: process.env.REDIS_URL || undefined,
      databaseUrl: process.env.DATABASE_URL || undefined,
      ports: freePorts ? { ingress: await freePort() } : await usualPorts(directory, engine || isOwn),
      modelServers: { firstTokenMs: 100, tokensPerSecond: 25 },
      demo: true,
      models: startedModels,
      backends: startedBackends,
      ...(engines && { planName: enginePlan, backends: engines.backends, models: engines.models }),
      ...(own && { planFile: join(directory, backendPlan) }),
      aliases: startedAliases,
      prices: startedPrices,
      webhooks: true,
      // A restart waits for requests in flight. Half a minute is too long for a developer.
      env: { ...passedOnVariables(), ...own?.variables, ...(watch && { SHUTDOWN_GRACE_MS: '1000' }) },
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

/** What the ingress and the worker get of this environment: to see traces, and the service under another name. */
function passedOnVariables(): Record<string, string> {
  const given = Object.entries(process.env).flatMap(([name, value]) =>
    /^(OTEL_|PRODUCT_|SUPPORT_URL$)/.test(name) && value !== undefined ? [[name, value] as const] : [],
  );
  return Object.fromEntries(given);
}

/**
 * The usual ports. One that another program has is replaced, if no setting names it and no plan file was written of it. `without`: the
 * simulated model servers, which no one calls then.
 */
async function usualPorts(directory: string, without: boolean) {
  const { PORT, OPS_PORT } = process.env;
  const operations = Number(OPS_PORT ?? 8081);
  const isKept = without || (await readModelPorts(directory)).length > 0;
  const places = [
    { what: 'the API', port: Number(PORT ?? 8080), isFixed: PORT !== undefined },
    { what: 'the operations listener of the ingress', port: operations, isFixed: OPS_PORT !== undefined },
    { what: 'the operations listener of the worker', port: operations + 1, isFixed: OPS_PORT !== undefined },
    { what: 'the identity provider', port: 8083, isFixed: false },
    ...[8084, 8085, 8086].map((port) => ({ what: 'a model server', port, isFixed: isKept })),
  ];
  const chosen = await portsNear(places.filter(({ isFixed }) => !isFixed).map(({ port }) => port));
  const ports = places.map(({ what, port, isFixed }) => {
    const found = isFixed ? port : (chosen.shift() ?? port);
    if (found !== port) console.log(`Port ${port} is in use: ${what} listens on ${found}.`);
    return found;
  });
  const [ingress = 0, first = 0, second = 0, identity = 0, ...[a = 0, b = 0, c = 0]] = ports;
  const models: [number, number, number] = [a, b, c];
  return { ingress, identity, operations: [first, second] as [number, number], ...(!without && { models }) };
}

async function introduce(running: Running, { announce }: TakenDirectory, wishes: StartOptions): Promise<void> {
  const { stack, engines, own } = running;
  const { issuer, clientSecret } = stack.identity;
  const { redisUrl, databaseUrl, planFile } = stack;
  const url = stack.ingresses[0]?.url ?? stack.baseUrl;
  const processes = [...stack.started(), ...(engines?.engines ?? [])].map(({ pid, command }) => ({ pid, command }));
  announce({ issuer, clientSecret, service: { url, redisUrl, databaseUrl, planFile }, processes });
  const key = await openDemoKey(stack);
  if (wishes.verbose) {
    const models = own?.planFile.models ?? engines?.models ?? startedModels;
    const servers = own ? Object.values(own.planFile.backends) : (engines?.engines ?? stack.modelServers);
    const token = await stack.identity.token(demoAccount);
    console.log(['', ...detailLines({ stack, url, models, servers, token })].join('\n'));
  }
  console.log(readyLines({ url, key }).join('\n'));
  const failure = wishes.open ? await openBrowser(`${url}/console`) : undefined;
  if (failure !== undefined) console.error(failure);
}

function show(from: string, line: LogLine): void {
  const words = logWords(from, line);
  if (words !== undefined) console[words.isWarning ? 'error' : 'log'](words.text);
}
