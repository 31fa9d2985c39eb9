import { setTimeout as sleep } from 'node:timers/promises';
import { Cluster, type Redis as SingleRedis } from 'ioredis';
import type { Log } from '../process/log.ts';
import { StartError } from '../process/start-error.ts';
import { mastersOf, type Redis } from './connections.ts';
import { refusalOf } from './observe-connection.ts';

type WaitOptions = { signal: AbortSignal; log: Log };

const askAgainMs = 1_000;

/**
 * Waits until all of these connections are ready. Checks that the first Redis, which holds the queues, is durable, that each can run the
 * scripts of the service (contract.md#pa2-kinds-of-redis), and that none is a single node of a cluster. Only the first must allow `INFO`; a
 * warning is logged for any other that does not. `memoryBytes` is the memory that the first Redis may use, 0 if it does not report that; a
 * cluster's is that of its smallest node for each of its masters.
 */
export async function waitForRedis(
  connections: readonly [Redis, ...Redis[]],
  waiting: WaitOptions,
): Promise<{ memoryBytes: number }> {
  const done = new AbortController();
  const signal = AbortSignal.any([waiting.signal, done.signal]);
  const found = [...new Set(connections)].map(async (redis, index) => {
    const infos = await waitForInfo(redis, { ...waiting, signal, isRequired: index === 0 });
    if (!redis.isCluster) infos.forEach(refuseClusterNode);
    return infos;
  });
  const [infos = []] = await Promise.all(found).finally(() => done.abort()); // one that is refused ends the waiting for the others
  infos.forEach(refuseEviction);
  if (infos.some(isWithoutFile)) waiting.log.warn({}, noFile);
  return { memoryBytes: memoryOf(infos) };
}

/** Returns the memory that Redis may use now, in bytes, as `waitForRedis` does. */
export async function readRedisMemory(redis: Redis): Promise<number> {
  return memoryOf(await Promise.all(mastersOf(redis).map((node) => node.info('memory'))));
}

function memoryOf(infos: readonly string[]): number {
  return Math.min(...infos.map(readMemory)) * infos.length;
}

/** Returns no text if the user of this connection may not run `INFO` and it is not required; otherwise that of each master. */
async function waitForInfo(redis: Redis, waiting: WaitOptions & { isRequired: boolean }): Promise<string[]> {
  const { signal, log, isRequired } = waiting;
  while (true) {
    await waitUntilReady(redis, signal);
    try {
      await Promise.all(mastersOf(redis).map(requireScripts));
      return await readInfos(redis, log);
    } catch (error) {
      if (error instanceof StartError) throw error;
      const mayNot = error instanceof Error && error.message.startsWith('NOPERM');
      if (mayNot && !isRequired) {
        log.warn(
          { err: error },
          'A Redis user may not run INFO, which shows whether Redis is a cluster. Grant it +info',
        );
        return [];
      }
      const message = mayNot
        ? 'The Redis user of this process may not run INFO, which shows whether Redis is durable. Grant it +info; waiting'
        : 'The connection to Redis was lost while the process started; waiting for Redis';
      log.warn({ err: error }, message);
      await sleep(askAgainMs, undefined, { signal });
    }
  }
}

/** With the flags of the scripts, and without effect. It runs also while Redis refuses writes. */
const flaggedScript = '#!lua flags=no-writes,allow-oom\nreturn 1';

/** A Redis before 7 cannot read the first line of the scripts. What else is wrong is found by what follows. */
async function requireScripts(node: SingleRedis): Promise<void> {
  const refusal = await node.eval(flaggedScript, 0).then(
    () => undefined,
    (error: Error) => error.message,
  );
  if (!refusal?.includes('compiling script')) return;
  const info = await node.info('server').catch(() => '');
  const version = /^redis_version:(\S+)/m.exec(info)?.[1];
  throw new StartError(
    `This Redis ${version === undefined ? '' : `has the version ${version} and `}cannot run scripts with flags. Use Redis 7 or later, or Valkey, in REDIS_URL and REPLY_REDIS_URL.`,
  );
}

/** Of a cluster, a process also starts without some of its nodes. Throws if none answers. */
async function readInfos(redis: Redis, log: Log): Promise<string[]> {
  if (!(redis instanceof Cluster)) return [await redis.info()];
  const masters = redis.nodes('master');
  const answers = await Promise.allSettled(masters.map((node) => node.info()));
  const infos = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []));
  const failures = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason] : []));
  if (infos.length === 0) throw failures[0] ?? new Error('no master of the cluster is known');
  if (failures.length > 0) log.warn({ err: failures[0] }, 'a node of the Redis Cluster was not checked');
  return infos;
}

/**
 * Waits, without a time limit, until this connection is ready. Only `signal` ends the wait early. Throws `StartError` if Redis refuses the
 * connection, which waiting cannot change.
 */
export async function waitUntilReady(redis: Redis, signal: AbortSignal): Promise<void> {
  for (;;) {
    const refusal = refusalOf(redis);
    if (refusal !== undefined) throw new StartError(refusal);
    if (redis.status === 'ready') return;
    await sleep(50, undefined, { signal });
  }
}

/** A cluster node holds only some of the keys, and a connection to it learns that only when a call fails. */
function refuseClusterNode(info: string): void {
  if (!/^cluster_enabled:1/m.test(info)) return;
  throw new StartError(
    'This Redis is a node of a Redis Cluster. Use redis+cluster://<host>:<port>,<host>:<port> in REDIS_URL and REPLY_REDIS_URL.',
  );
}

/** Returns the memory that a Redis with this `INFO` may use, in bytes: all memory of its machine if it has no limit. */
function readMemory(info: string): number {
  const numberOf = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
  return numberOf('maxmemory') || numberOf('total_system_memory');
}

/**
 * Refuses a Redis that may evict data: a queue, limit counters or a usage event evicted under memory pressure would be lost silently
 * (contract.md#m8-required-settings).
 */
function refuseEviction(info: string): void {
  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1];
  if (policy === undefined || policy === 'noeviction') return;
  throw new StartError(
    `Redis has maxmemory-policy ${policy}; it must be noeviction, or queued requests can be evicted.`,
  );
}

const noFile = 'Redis has no append-only file: queued requests and usage not yet stored are lost when it restarts';

function isWithoutFile(info: string): boolean {
  return /^aof_enabled:0/m.test(info);
}
