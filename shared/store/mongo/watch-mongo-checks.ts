import type { MongoClient } from 'mongodb';

/**
 * How long a check of a server may take. Each has the time-outs of the client (`mongo-calls.ts`); one that a server answers
 * when something changes takes ten seconds more.
 */
const checkMsMax = { plain: 6_000, awaited: 15_000 };

/**
 * The driver checks each server over and over, and a call waits for what the last check says. If the connection is lost in the
 * moment before the check is written to it, the driver (7.9 and before) waits forever for that socket to drain, and no call
 * works again.
 */
export function watchMongoChecks(client: Pick<MongoClient, 'on'>, now: () => number) {
  /** When a check that has not ended must have ended, by server. */
  const late = new Map<string, number>();
  client.on('serverHeartbeatStarted', ({ connectionId, awaited }) =>
    late.set(connectionId, now() + (awaited ? checkMsMax.awaited : checkMsMax.plain)),
  );
  const ended = ({ connectionId }: { connectionId: string }) => late.delete(connectionId);
  client.on('serverHeartbeatSucceeded', ended);
  client.on('serverHeartbeatFailed', ended);
  client.on('serverClosed', ({ address }) => late.delete(address));
  return {
    /** Whether a check of any server has not ended in its time. */
    areStuck: () => [...late.values()].some((at) => at < now()),
    /** Before the client connects again. */
    forget: () => late.clear(),
  };
}
