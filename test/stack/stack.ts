import { randomBytes } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type IdentityProvider, startIdentityProvider } from './identity-provider.ts';
import { type ModelServer, type ModelServerOptions, startModelServer } from './model-server.ts';
import { type BackendSettings, planFileFor, type StackBackend, type StackModel, type StackPrice } from './plan.ts';
import { type Remains, requireNoFullKeys } from './search-keys.ts';
import { type LogLine, type ServiceProcess, startServiceProcess } from './service-process.ts';
import { type StackRedis, startStackRedis } from './stack-redis.ts';
import type { ProviderVariations } from './vary-provider.ts';

export type StackOptions = {
  /** The folder of all data. Default: a temporary folder, which is searched for keys and removed when the stack ends. */
  directory?: string;
  ingresses?: number;
  workers?: number;
  /** Ports of the listeners. Default: free ones. A plan file that exists in `directory` says those of the model servers. */
  ports?: Partial<{
    ingress: number;
    identity: number;
    models: [number, number, number];
    operations: [number, number];
  }>;
  /** Default: a private Redis. */
  redisUrl?: string | undefined;
  databaseUrl?: string | undefined;
  /** A plan file in `directory` that is written again at each start. Default: `plans.yaml`, where own changes stay. */
  planName?: string | undefined;
  /** A plan file that is there, and is used as it is. The model servers of the stack are not in it. */
  planFile?: string | undefined;
  timeouts?: Record<string, number>;
  /** Bounds of files and batches. */
  batch?: Record<string, number>;
  /** Limits of minting guest keys, and how long devices are kept. */
  guests?: Record<string, number>;
  /** Plans that are added to the default ones, or replace them. */
  plans?: Record<string, object>;
  /** Models that are added to the default ones. */
  models?: Record<string, StackModel>;
  /** Further settings of each backend of the plan file, and further backends, by name. */
  backends?: Record<string, BackendSettings>;
  /** Hosts that media may be fetched from. */
  mediaHosts?: readonly string[];
  /** Other names of models. */
  aliases?: Record<string, string>;
  /** Prices of models. */
  prices?: Record<string, readonly StackPrice[]>;
  env?: Record<string, string>;
  /** How the identity provider differs from the default one. */
  identity?: ProviderVariations;
  /** Whether accounts can have webhooks, also at `localhost`. Default: no. */
  webhooks?: boolean;
  /** Whether ingress and worker restart each time their source changes. */
  watch?: boolean;
  modelServers?: Pick<
    ModelServerOptions,
    'firstTokenMs' | 'tokensPerSecond' | 'splitBytes' | 'callsKept' | 'countTokens'
  >;
  /** Whether the model servers answer in plain words, for people. Default: with a text for tests. */
  demo?: boolean;
  onLine?: (from: string, line: LogLine) => void;
};

export type RunningProcess = { process: ServiceProcess; operationsUrl: string };
export type RunningIngress = RunningProcess & { url: string };

export interface Stack extends AsyncDisposable {
  directory: string;
  baseUrl: string;
  /** In the order in which they became ready. */
  ingresses: RunningIngress[];
  workers: RunningProcess[];
  identity: IdentityProvider;
  /** Undefined when the stack runs on a given Redis. */
  redis: StackRedis | undefined;
  redisUrl: string;
  databaseUrl: string;
  planFile: string;
  /** Two on-prem replicas, then the cloud. */
  modelServers: [ModelServer, ModelServer, ModelServer];
  /** Resolves when it is ready. `root` is the folder of the code, for another version of the service. */
  startIngress(env?: Record<string, string>, root?: string): Promise<RunningIngress>;
  startWorker(env?: Record<string, string>, root?: string): Promise<RunningProcess>;
  /** Every process that was started, ready or not, running or ended. */
  started(): readonly ServiceProcess[];
  /** A developer key of this account, minted over HTTP with a sign-in token. */
  mintKey(account: string): Promise<string>;
}

/** Starts the complete service on this machine, with a simulated identity provider and simulated model servers. */
export async function startStack(options: StackOptions = {}): Promise<Stack> {
  await using started = new AsyncDisposableStack();
  const { ports, modelServers: pace = {}, watch, onLine } = options;
  const processes: ServiceProcess[] = [];
  const secrets: string[] = [];
  const remains = { processes, databaseUrl: options.databaseUrl, secrets: () => secrets };
  const directory = options.directory ?? (await temporaryDirectory(started, remains));
  await mkdir(directory, { recursive: true });

  const { planName } = options;
  const planFile = options.planFile ?? join(directory, planName ?? 'plans.yaml');
  const keptPlan = planName === undefined ? await readFile(planFile, 'utf8').catch(() => undefined) : undefined;
  const keptPorts = planName === undefined && options.planFile === undefined ? await readModelPorts(directory) : [];
  const baseUrl = `http://127.0.0.1:${ports?.ingress ?? 8080}`;
  const demo = options.demo ? { demo: { docsUrl: `${baseUrl}/docs` } } : {};
  const startServer = async (name: string, index: 0 | 1 | 2) =>
    started.use(
      await startModelServer({ name, port: keptPorts[index] ?? ports?.models?.[index] ?? 0, ...pace, ...demo }),
    );
  const modelServers: Stack['modelServers'] = [
    await startServer('onprem-a', 0),
    await startServer('onprem-b', 1),
    await startServer('cloud', 2),
  ];
  const identity = started.use(
    await startIdentityProvider({
      port: ports?.identity,
      audience: baseUrl,
      dataDirectory: join(directory, 'identity'),
      consoleRedirectUris: [`${baseUrl}/console`],
      ...options.identity,
    }),
  );

  const redis =
    options.redisUrl === undefined ? started.use(await startStackRedis(join(directory, 'redis'))) : undefined;
  const redisUrl = options.redisUrl ?? redis?.url ?? '';

  const [first, second, cloud] = modelServers;
  const { timeouts = {}, plans = {}, models = {}, batch = {}, mediaHosts = [], guests = {} } = options;
  const { aliases = {}, prices = {}, backends: given = {} } = options;
  const backends: Record<string, StackBackend> = {
    'onprem-a': { url: first.url, location: 'on-prem' },
    'onprem-b': { url: second.url, location: 'on-prem' },
    cloud: { url: cloud.url, location: 'cloud', model: 'upstream-model' },
  };
  for (const [name, more] of Object.entries(given)) {
    // A further one without an address is at the first model server.
    backends[name] = { ...(backends[name] ?? { url: first.url, location: 'on-prem' }), ...more };
  }
  // Own changes of an existing file stay. Where it still names the model servers of the stack, these listen there.
  if (keptPlan === undefined) {
    const ports = JSON.stringify(modelServers.map(({ port }) => port));
    if (planName === undefined) await writeFile(join(directory, modelPortsFile), ports);
    const settings = { backends, timeouts, plans, models, batch, mediaHosts, aliases, guests, prices };
    await writeFile(planFile, planFileFor(settings));
  }
  const databaseUrl = options.databaseUrl ?? `sqlite:${join(directory, 'store.sqlite')}`;
  const settings = {
    REDIS_URL: redis?.serviceUrl ?? redisUrl,
    DATABASE_URL: databaseUrl,
    PLAN_FILE: planFile,
    BASE_URL: baseUrl,
    SHUTDOWN_DELAY_MS: '0', // no load balancer is in front
    AUTH_URL: identity.issuer,
    ...(await readSecrets(directory, options)),
    // A test changes settings faster than a person.
    ...(options.directory === undefined && { SETTINGS_WRITES_PER_MINUTE: '1000000' }),
    ...options.env,
  };

  const ingresses: RunningIngress[] = [];
  const workers: RunningProcess[] = [];

  function start(name: 'ingress' | 'worker', own: Record<string, string>, root?: string): ServiceProcess {
    const side = name === 'ingress' ? 'ingress' : 'workers';
    const env = { ...settings, ...own };
    secrets.push(...secretsIn(env));
    const child = startServiceProcess({
      side,
      env,
      root,
      watch,
      ...(onLine && { onLine: (line) => onLine(name, line) }),
    });
    processes.push(child);
    return child;
  }

  async function startIngress(env: Record<string, string> = {}, root?: string): Promise<RunningIngress> {
    const own = { PORT: String(ports?.ingress ?? 0), OPS_PORT: String(ports?.operations?.[0] ?? 0), HOST: '127.0.0.1' };
    const child = start('ingress', { ...own, ...env }, root);
    const [url, operationsUrl] = await Promise.all([urlOf(child, 'ready'), urlOf(child, 'operations')]);
    const running = { process: child, url, operationsUrl };
    ingresses.push(running);
    return running;
  }

  async function startWorker(env: Record<string, string> = {}, root?: string): Promise<RunningProcess> {
    const child = start('worker', { OPS_PORT: String(ports?.operations?.[1] ?? 0), ...env }, root);
    await child.line(({ msg }) => msg === 'ready');
    const running = { process: child, operationsUrl: await urlOf(child, 'operations') };
    workers.push(running);
    return running;
  }

  async function mintKey(account: string): Promise<string> {
    const response = await fetch(`${ingresses[0]?.url}/v1/keys/developer`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${await identity.token(account)}` },
      body: '{}',
    });
    const { key } = (await response.json()) as { key: string }; // the service's own answer
    return key;
  }

  // The processes end first, before the parts that they depend on.
  started.defer(async () => {
    await Promise.all(processes.map((child) => child.stop()));
  });
  await Promise.all([
    ...Array.from({ length: options.ingresses ?? 1 }, () => startIngress()),
    ...Array.from({ length: options.workers ?? 1 }, () => startWorker()),
  ]);
  const owned = started.move();
  return {
    directory,
    baseUrl,
    ingresses,
    workers,
    identity,
    redis,
    redisUrl,
    databaseUrl,
    planFile,
    modelServers,
    startIngress,
    startWorker,
    started: () => processes,
    mintKey,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The folder is removed with the stack, after the check that it contains no key and that no process logged one. */
async function temporaryDirectory(started: AsyncDisposableStack, others: Omit<Remains, 'directory'>): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'inference-stack-'));
  started.defer(() => rm(directory, { recursive: true, force: true }));
  started.defer(() => requireNoFullKeys({ directory, ...others }));
  return directory;
}

/** The secrets among these settings, and the passwords in their addresses. */
function secretsIn(settings: Record<string, string>): string[] {
  const { KEY_PEPPER = '', GUEST_KEY_SECRET = '', WEBHOOK_SECRET_KEY = '' } = settings;
  const { REDIS_URL = '', REPLY_REDIS_URL = '' } = settings;
  const passwords = [REDIS_URL, REPLY_REDIS_URL].flatMap((url) => /\/\/[^/@]*:([^:@/]+)@/.exec(url)?.[1] ?? []);
  const secrets = [KEY_PEPPER, GUEST_KEY_SECRET, WEBHOOK_SECRET_KEY].flatMap((setting) => setting.split(','));
  return [...secrets, ...passwords].filter((secret) => secret.length >= 8);
}

async function urlOf(child: ServiceProcess, listener: 'ready' | 'operations'): Promise<string> {
  const { port } = await child.line(({ msg, port }) => port !== undefined && msg?.startsWith(listener) === true);
  return `http://127.0.0.1:${port}`;
}

const modelPortsFile = 'model-servers.json';

/** The ports for which the plan file of this folder was written. Empty if there is none. */
export async function readModelPorts(directory: string): Promise<readonly number[]> {
  const text = await readFile(join(directory, modelPortsFile), 'utf8').catch(() => '[]');
  return JSON.parse(text) as number[]; // our own file
}

/** The secrets of this stack, created at its first start and kept with its data, readable by its owner only. */
async function readSecrets(directory: string, { webhooks }: StackOptions): Promise<Record<string, string>> {
  const file = join(directory, 'secrets.json');
  const secret = () => randomBytes(32).toString('base64url');
  const fresh = { KEY_PEPPER: secret(), GUEST_KEY_SECRET: secret(), WEBHOOK_SECRET_KEY: secret() };
  const kept = (await readFile(file, 'utf8').then(JSON.parse, () => ({}))) as Partial<typeof fresh>; // our own file
  const { WEBHOOK_SECRET_KEY, ...secrets } = { ...fresh, ...kept };
  await writeFile(file, JSON.stringify({ ...secrets, WEBHOOK_SECRET_KEY }), { mode: 0o600 });
  await chmod(file, 0o600);
  return { ...secrets, ...(webhooks && { WEBHOOK_SECRET_KEY, WEBHOOK_HOSTS_PRIVATE: 'localhost:*' }) };
}
