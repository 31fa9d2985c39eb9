import type { MongoClient } from 'mongodb';

/**
 * The longest duration of a check of a server. Each check has the client's timeouts (`mongo-calls.ts`); a check that the server answers
 * only when its state changes takes ten seconds more.
 */
const checkMsMax = { plain: 6_000, awaited: 15_000 };

/**
 * The driver checks each server repeatedly, and a call waits for the result of the last check. If the connection is lost in the moment
 * before the check is written to it, the driver (7.9 and earlier) waits forever for that socket to drain, and no call succeeds again
 * (decisions.md#mongodb-s-own-limits-set-and-one-of-ours).
 */
export function watchMongoChecks(client: Pick<MongoClient, 'on'>, now: () => number) {
  /** The time by which each unfinished check must have ended, by server. */
  const late = new Map<string, number>();
  client.on('serverHeartbeatStarted', ({ connectionId, awaited }) =>
    late.set(connectionId, now() + (awaited ? checkMsMax.awaited : checkMsMax.plain)),
  );
  const ended = ({ connectionId }: { connectionId: string }) => late.delete(connectionId);
  client.on('serverHeartbeatSucceeded', ended);
  client.on('serverHeartbeatFailed', ended);
  client.on('serverClosed', ({ address }) => late.delete(address));
  return {
    /** Returns whether a check of any server is overdue. */
    areStuck: () => [...late.values()].some((at) => at < now()),
    /** To be called before the client connects again. */
    forget: () => late.clear(),
  };
}
