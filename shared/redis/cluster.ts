import { Cluster, type Command, type RedisOptions } from 'ioredis';
import type { RedisAddress } from '../process/redis-url.ts';

type ClusterAddress = Extract<RedisAddress, { kind: 'cluster' }>;

type Repeats = {
  /** Options of the connection to each node. */
  node: Pick<
    RedisOptions,
    'connectTimeout' | 'keepAlive' | 'disableClientInfo' | 'socketTimeout' | 'maxRetriesPerRequest'
  >;
  /** How long a command is repeated after a redirection or a closed connection, in milliseconds from the first such failure. */
  repeatMs: number;
  /** The same for a command whose keys are moving to another node; by default `repeatMs`. */
  movingMs?: number;
  /** Whether commands wait while no node is reachable. Otherwise they fail at once. */
  waits: boolean;
  retryStrategy: (attempt: number) => number;
};

/** Between two attempts to send a command. */
const pauseMs = 100;
/**
 * The same for a command that has failed for longer than a failover takes: a node that is away has many, and each attempt asks another node
 * where its slot is.
 */
const longPauseMs = 1_000;
const longAfterMs = 15_000;
/** A node that no longer has a slot, and the next one that does not have it yet, would redirect a command many times a second. */
const movedPauseMs = 10;

/**
 * Connects to a Redis Cluster. The library repeats commands after redirections, and after a connection was closed, so that a command may be
 * executed twice. It counts attempts; here time is bounded instead, because a failover takes as long as the cluster is set to wait, not a
 * number of attempts. A command that has settled is never sent again (contract.md#m7-two-kinds-of-connections).
 */
export function connectCluster(address: ClusterAddress, { node, retryStrategy, ...bounds }: Repeats): Cluster {
  const { username, password, tls } = address;
  const cluster = new Cluster([...address.servers], {
    redisOptions: { ...node, ...(username && { username }), ...(password && { password }), ...(tls && { tls: {} }) },
    clusterRetryStrategy: retryStrategy,
    enableOfflineQueue: bounds.waits,
    maxRedirections: Number.POSITIVE_INFINITY,
    retryDelayOnMoved: movedPauseMs,
    retryDelayOnFailover: pauseMs,
    retryDelayOnClusterDown: pauseMs,
    retryDelayOnTryAgain: pauseMs,
    slotsRefreshTimeout: 1_000,
    // Certificates contain names, so names are not resolved to addresses here.
    dnsLookup: (host, callback) => callback(null, host),
  });
  boundRepeats(cluster, bounds);
  cluster.on('+node', guardSending);
  return cluster;
}

type Failure = { value?: number; first?: number; isMoving?: boolean };
type NextAttempt = { connectionClosed: () => void; defaults: () => void };

/** `handleError` decides whether a command, or a pipeline, is sent again. `failure` is an object for each of these. */
function boundRepeats(cluster: Cluster, bounds: Omit<Repeats, 'node' | 'retryStrategy'>): void {
  const { repeatMs, movingMs = repeatMs, waits } = bounds;
  const decide = cluster.handleError.bind(cluster);
  cluster.handleError = (error: Error, failure: Failure, next: NextAttempt) => {
    failure.first ??= performance.now();
    failure.isMoving ||= error.message.startsWith('TRYAGAIN');
    const failedMs = performance.now() - failure.first;
    if (failedMs >= (failure.isMoving ? movingMs : repeatMs) || cluster.status === 'end') return next.defaults();
    const isLate = failedMs >= longAfterMs;
    // The library repeats it only while it is connected to some node.
    if (waits && isClosed(error) && (isLate || cluster.status !== 'ready'))
      setTimeout(next.connectionClosed, isLate ? longPauseMs : pauseMs);
    else decide(error, failure, next);
  };
}

function isClosed(error: Error): boolean {
  return error.message === 'Connection is closed.';
}

/**
 * A repetition is scheduled before it is sent. By then, the deadline of its command may have passed. Before a command that a moving slot
 * redirects, the library sends `asking` and ignores its result. If the connection closes then, its failure would end this process; the
 * command after it fails, too, and is repeated.
 */
function guardSending(node: { sendCommand: (command: Command, stream?: never) => unknown }): void {
  const send = node.sendCommand.bind(node);
  node.sendCommand = (command, stream) => {
    if (command.name === 'asking') command.promise.catch(() => {});
    return command.isSettled ? command.promise : send(command, stream);
  };
}

/** Keys with the same hash tag, in groups: commands and scripts can use several keys only if these are in one slot. */
export function groupByTag<Item>(items: readonly Item[], keyOf: (item: Item) => string): Item[][] {
  return [...Map.groupBy(items, (item) => hashTagOf(keyOf(item))).values()];
}

/** The part of a key that decides its slot: what is in the first braces, unless that is empty. */
export function hashTagOf(key: string): string {
  return /^[^{]*\{([^}]+)\}/.exec(key)?.[1] ?? key;
}
