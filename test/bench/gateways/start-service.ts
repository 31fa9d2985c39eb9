import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../stack/free-port.ts';
import { startIdentityProvider } from '../../stack/identity-provider.ts';
import { planFileFor, type StackBackend, type StackModel } from '../../stack/plan.ts';
import { startStackRedis } from '../../stack/stack-redis.ts';
import { createKeyClient } from '../../support/key-client.ts';
import { serviceTotal } from '../../support/service-metric.ts';
import { openBooks } from './books.ts';
import type { Gateway } from './gateway.ts';
import type { ModelServer, Place } from './places.ts';
import { startProcess } from './start-process.ts';

/** Workers store usage several times a second. */
const quietMs = 1_500;
const ownRoot = fileURLToPath(new URL('../../..', import.meta.url));
const secret = () => Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64url');

/** All limits, with values that no load reaches. */
const highLimits = {
  requests_per_minute: 100_000_000,
  tokens_per_minute: 100_000_000_000,
  requests_per_day: 1_000_000_000,
  tokens_per_month: 1_000_000_000_000,
  requests_at_once: 100_000,
  model_tiers: ['guest'],
};

export type Service = Awaited<ReturnType<typeof startService>>;
type Options = Pick<Place, 'directory'> & {
  /** The one backend, unless `backends` are given. */
  modelServer: Pick<ModelServer, 'url'>;
  backends?: Record<string, StackBackend>;
  name: string;
  ingresses?: number;
  workers?: number;
  plans?: Record<string, object>;
  /** Further models beside the usual ones. */
  models?: Record<string, StackModel>;
  /** Whether its Redis is a cluster of three masters. */
  isCluster?: boolean;
  /** The folder of the processes' code. Default: this project. */
  root?: string;
  /** Further arguments of Node for a process. */
  nodeArguments?: (process: 'ingress' | 'worker') => readonly string[];
};

/**
 * This service with its default deployment, and with its own Redis and store: its log is written to a file. It listens on the same ports
 * after a restart.
 */
export async function startService({ directory: above, modelServer, name, root = ownRoot, ...wanted }: Options) {
  await using parts = new AsyncDisposableStack();
  const directory = join(above, name);
  await mkdir(directory, { recursive: true });
  const { isCluster = false, models = {}, nodeArguments = () => [] } = wanted;
  const redis = parts.use(await startStackRedis(join(directory, 'redis'), { isCluster }));
  const [baseUrl, planFile] = ['http://127.0.0.1:8080', join(directory, 'plans.yaml')];
  const identity = parts.use(await startIdentityProvider({ audience: baseUrl, dataDirectory: directory }));
  const oneBackend = { 'model-server': { url: `${modelServer.url}/v1`, location: 'on-prem' as const } };
  const backends = wanted.backends ?? oneBackend;
  await writeFile(planFile, planFileFor({ backends, plans: { free: highLimits, ...wanted.plans }, models }));
  const settings = {
    ...{ REDIS_URL: redis.url, DATABASE_URL: `sqlite:${join(directory, 'store.sqlite')}`, PLAN_FILE: planFile },
    ...{ BASE_URL: baseUrl, AUTH_URL: identity.issuer, KEY_PEPPER: secret(), GUEST_KEY_SECRET: secret() },
    ...{ HOST: '127.0.0.1', SHUTDOWN_DELAY_MS: '0' },
  };

  async function placeFor(side: 'ingress' | 'workers', number: number) {
    const [port, operationsPort] = [await freePort(), await freePort()];
    const ofNode = nodeArguments(side === 'ingress' ? 'ingress' : 'worker');
    const start = () =>
      startProcess({
        ...{ command: process.execPath, args: [...ofNode, `${side}/main.ts`], cwd: root },
        env: { ...settings, OPS_PORT: String(operationsPort), ...(side === 'ingress' && { PORT: String(port) }) },
        logFile: join(directory, `${side}-${number}.log`),
        readyUrl: `http://127.0.0.1:${operationsPort}/readyz`,
      });
    const operationsUrl = `http://127.0.0.1:${operationsPort}`;
    const place = { url: `http://127.0.0.1:${port}`, operationsUrl, process: await start(), start };
    parts.defer(() => place.process[Symbol.asyncDispose]());
    return place;
  }

  const places = (side: 'ingress' | 'workers', count: number) =>
    Promise.all(Array.from({ length: count }, (_, index) => placeFor(side, index + 1)));
  const [ingresses, workers] = [
    await places('ingress', wanted.ingresses ?? 1),
    await places('workers', wanted.workers ?? 1),
  ];
  // Another version may answer otherwise than is documented here.
  const keys = createKeyClient({ ingresses, identity }, root === ownRoot ? {} : { fetch });

  /** A key of a new account, on the plan with its limits. */
  async function keyOn(plan: string): Promise<string> {
    const key = await keys.newKey(plan);
    await keys.change(`user:${plan}`, { plan });
    return key;
  }

  const owned = parts.move();
  return {
    ingresses,
    workers,
    redis,
    keys,
    keyOn,
    planFile,
    storeUrl: settings.DATABASE_URL,
    urls: ingresses.map(({ url }) => url),
    async processes() {
      return {
        ingress: ingresses.map((each) => each.process.pid),
        worker: workers.map((each) => each.process.pid),
        redis: [...redis.pids],
      };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The service with all its limits, and the account that sends the load. Of another version, only its metrics say that usage is stored. */
export async function serviceRow(options: Options & Place & Pick<Gateway, 'asked'>): Promise<Gateway> {
  await using parts = new AsyncDisposableStack();
  const service = parts.use(await startService(options));
  const key = await service.keyOn('free');
  if (options.root !== undefined) {
    const owned = parts.move();
    return {
      urls: service.urls,
      headers: { authorization: `Bearer ${key}` },
      processes: service.processes,
      drained: () => untilDrained(service.workers),
      [Symbol.asyncDispose]: () => owned.disposeAsync(),
    };
  }
  const books = parts.use(
    await openBooks({ redisUrl: service.redis.url, ...service, ...options, account: 'user:free' }),
  );
  const owned = parts.move();
  return {
    urls: service.urls,
    headers: { authorization: `Bearer ${key}` },
    ...(options.asked && { asked: options.asked }),
    processes: service.processes,
    drained: books.drained,
    books: books.books,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Resolves when workers have not stored any usage for a while. */
async function untilDrained(workers: readonly { operationsUrl: string }[]): Promise<void> {
  const stored = () => serviceTotal(workers, 'svc_usage_records_drained_total');
  let [before, now] = [-1, await stored()];
  while (now !== before) {
    await sleep(quietMs);
    [before, now] = [now, await stored()];
  }
}
