import { within } from '../../shared/concurrency/shutdown.ts';
import { type ApiError, clientGone, replyLost, temporarilyUnavailable } from '../../shared/errors.ts';
import { decodeEntry, type Reply } from '../../shared/jobs/replies.ts';
import type { Log } from '../../shared/process/log.ts';
import { pingsOfNodes } from '../../shared/redis/check-redis.ts';
import { nodeOf, type Redis } from '../../shared/redis/connections.ts';
import { countersKey, queuePrefix, replyStreamKey } from '../../shared/redis/keys.ts';
import { type Inbox, openInbox } from '../../shared/redis/stream-inbox.ts';
import { markReleased } from '../limits/settle-interrupted.ts';
import {
  createWaitingRequest,
  deliverReply,
  dropUnread,
  type ExpectedReply,
  type ExpectedRequest,
  failQueueing,
  forgetRequest,
  isQueued,
  isWaitedFor,
  leaveRequest,
  letGo,
  type WaitingEffects,
  type WaitingRequest,
} from './waiting-request.ts';

/**
 * Keeps the requests of this ingress that wait for their reply. Timers of this ingress end every wait, even if everything else fails
 * (contract.md#d8-deadlines).
 */
export function createWaitingRequests(
  deps: Pick<WaitingEffects, 'cancel' | 'release' | 'settleInterrupted' | 'reportTaken' | 'answers'>,
) {
  const waiting = new Map<string, WaitingRequest>();
  let closed: ApiError | undefined;
  const effects: WaitingEffects = {
    ...deps,
    async release(lease) {
      const answer = await deps.release(lease);
      if (answer === 'released') markReleased(lease);
      return answer;
    },
    onForgotten(request) {
      const { requestId } = request.lease;
      if (waiting.get(requestId) === request) waiting.delete(requestId);
    },
  };

  function fail(requests: readonly WaitingRequest[], error: ApiError): void {
    for (const request of requests) {
      letGo(request, error);
      // A request that is forgotten is cancelled when it starts.
      if (request.left) forgetRequest(request);
    }
  }

  const of = (replyTo: string) => [...waiting.values()].filter((request) => request.replyTo === replyTo);

  return {
    /**
     * Registers a request before it is queued, so that no reply can arrive too early. Takes over its place, and leaves it when the first
     * reply arrives, when no reply can arrive any more, and when this throws.
     */
    expect(expected: ExpectedRequest): ExpectedReply {
      if (closed !== undefined) {
        expected.place.leave();
        effects.release(expected.lease).catch(() => {});
        throw closed;
      }
      const request = createWaitingRequest(expected, effects);
      waiting.set(expected.lease.requestId, request);
      return {
        next: request.buffer.next,
        writeTextWith: request.buffer.writeTextWith,
        ended: request.ended.promise,
        taken: request.taken.add,
        abandon() {
          dropUnread(request);
          // Usually the end has been read already, and no error needs to be created.
          if (isWaitedFor(request)) letGo(request, clientGone());
        },
        failQueueing: (error) => failQueueing(request, error),
        fail: (error) => leaveRequest(request, error),
      };
    },
    deliver(reply: Reply): void {
      const request = waiting.get(reply.request);
      if (request !== undefined) deliverReply(request, reply);
      // The request was given up before its worker was known.
      else if (reply.kind === 'started')
        deps.cancel({ requestId: reply.request, model: undefined, control: reply.data.control });
    },
    /** Fails every request that waits for replies in this stream, with this error, and cancels its job unless its answer is kept. */
    failStream: (replyTo: string, error: ApiError): void => fail(of(replyTo), error),
    /** Fails the requests of these that no worker has started, with this error, and releases them. */
    failQueued(isMeant: (request: { account: string; model: string }) => boolean, error: ApiError): void {
      for (const request of [...waiting.values()].filter(isQueued)) {
        if (isMeant({ account: request.lease.account, model: request.model })) leaveRequest(request, error);
      }
    },
    /** Whether requests wait for replies in this stream. */
    useStream: (replyTo: string): boolean => of(replyTo).length > 0,
    /** Fails every waiting request and all later ones, and cancels their jobs unless their answers are kept. */
    close(error: ApiError): void {
      closed = error;
      fail([...waiting.values()], error);
    },
    /** Requests whose client waits, or whose answer is kept. */
    count: (): number => [...waiting.values()].filter(({ left }) => !left).length,
    /** For each model, how long its oldest request that no worker has started has been waiting, in milliseconds. */
    oldest(): Map<string, number> {
      const ages = new Map<string, number>();
      const now = performance.now();
      for (const { model, queuedAt } of [...waiting.values()].filter(isQueued)) {
        ages.set(model, Math.max(ages.get(model) ?? 0, now - queuedAt));
      }
      return ages;
    },
  };
}

export type WaitingRequests = ReturnType<typeof createWaitingRequests>;

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

/**
 * Delivers the replies of this ingress's reply stream to the waiting requests. If the stream is lost, all of them fail
 * (contract.md#p7-lost-stream).
 */
export function listenForReplies({
  connectReader,
  redis,
  waitingRequests,
  log,
}: {
  connectReader: () => Redis;
  redis: Redis;
  waitingRequests: WaitingRequests;
  log: Log;
}): Inbox {
  return openInbox({
    connectReader,
    redis,
    log,
    keyOf: replyStreamKey,
    onEntry: (fields) => {
      const replies = decodeEntry(fields);
      for (const reply of replies) waitingRequests.deliver(reply);
      // While only text arrives, the next read may wait a few milliseconds for more.
      return replies.every(({ kind }) => kind === 'chunk');
    },
    onLost: (stream) => waitingRequests.failStream(stream, replyLost(false)),
    isInUse: waitingRequests.useStream,
  });
}
