import { within } from '../../shared/concurrency/shutdown.ts';
import { temporarilyUnavailable } from '../../shared/errors.ts';
import { pingsOfNodes } from '../../shared/redis/check-redis.ts';
import { nodeOf, type Redis } from '../../shared/redis/connections.ts';
import { countersKey, queuePrefix } from '../../shared/redis/keys.ts';
import type { WaitingRequests } from './waiting-requests.ts';

const checkEveryMs = 500;
const answerMs = 1_000;
/** A failover to a replica should be shorter. Then the requests continue. */
const unavailableMsMax = 3_000;

/**
 * Checks the nodes of a cluster, and fails the requests that wait for a worker while the node of their account or of their model's queue
 * has been unavailable for 3 s: no worker can start them (contract.md#p7-lost-stream). Does nothing without a cluster.
 */
export function watchNodes(deps: { redis: Redis; waitingRequests: Pick<WaitingRequests, 'failQueued'> }): Disposable {
  const { redis, waitingRequests } = deps;
  const downSince = new Map<string, number>();
  let isChecking = false;

  async function checkNode(node: string, check: () => Promise<unknown>): Promise<void> {
    const begunAt = performance.now();
    const answers = await within(answerMs, check()).catch(() => false);
    if (answers) downSince.delete(node);
    else if (!downSince.has(node)) downSince.set(node, begunAt);
  }

  async function checkAll(): Promise<void> {
    isChecking = true;
    const checks = new Map(Object.entries(pingsOfNodes(redis)));
    // A node that was replaced is not down any more, but gone.
    for (const node of downSince.keys()) if (!checks.has(node)) downSince.delete(node);
    await Promise.all([...checks].map(([node, check]) => checkNode(node, check)));
    isChecking = false;
    const now = performance.now();
    const away = new Set([...downSince].filter(([, since]) => now - since >= unavailableMsMax).map(([node]) => node));
    if (away.size === 0) return;
    const isAway = (key: string) => away.has(nodeOf(redis, key));
    waitingRequests.failQueued(
      ({ account, model }) => isAway(countersKey(account)) || isAway(queuePrefix(model)),
      temporarilyUnavailable(new Error('a node of the Redis Cluster is unavailable')),
    );
  }

  const timer = redis.isCluster ? setInterval(() => isChecking || void checkAll(), checkEveryMs) : undefined;
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
