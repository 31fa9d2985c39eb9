/**
 * `callMs`: deadline of one call in total, no matter what the driver still waits for. `serverMs` (for a server, and for a connection),
 * `socketMs` and `writeMs` are the driver's own limits, each below it.
 */
export type MongoLimits = { callMs: number; serverMs: number; socketMs: number; writeMs: number };

/**
 * All are set, because the driver's defaults are 30 s or unlimited, and no single limit detects a silent network in all cases
 * (contract.md#r7-mongodb-safety, decisions.md#mongodb-s-own-limits-set-and-one-of-ours).
 */
export const usualLimits: MongoLimits = { callMs: 5_000, serverMs: 2_000, socketMs: 4_000, writeMs: 3_000 };

const connectionsMax = 20;
/** With fewer, the check whether updates are atomic would send them one after another. */
const connectionsMin = 8;

/**
 * The options of a client for this connection string. Those of the string that are not named here pass as they are, and so does
 * `maxPoolSize`. One that the service sets itself is accepted with the same value; with another one it throws, because the driver would
 * ignore it (contract.md#pa3-kinds-of-stores).
 */
export function clientOptionsFor(url: string, { serverMs, socketMs, writeMs }: MongoLimits) {
  const times = {
    serverSelectionTimeoutMS: serverMs,
    connectTimeoutMS: serverMs,
    socketTimeoutMS: socketMs,
    waitQueueTimeoutMS: serverMs,
  };
  const given = optionsIn(url);
  const writes = { w: 'majority', wtimeoutMS: writeMs, wtimeout: writeMs, journal: true, j: true };
  for (const [name, ours] of Object.entries({ ...times, ...writes, readPreference: 'primary' })) {
    const theirs = given.get(name.toLowerCase()) ?? String(ours);
    if (theirs.toLowerCase() !== String(ours))
      throw new Error(`its option ${name}=${theirs} cannot be used, because the service needs ${ours}. Remove it.`);
  }
  const connections = Number(given.get('maxpoolsize') ?? connectionsMax);
  if (connections > 0 && connections < connectionsMin)
    throw new Error(
      `its option maxPoolSize=${connections} cannot be used, because the service needs at least ${connectionsMin}.`,
    );
  if (given.has('timeoutms')) throw new Error('its option timeoutMS has no effect in this driver. Remove it.');
  return {
    ...times,
    ...(!given.has('maxpoolsize') && { maxPoolSize: connectionsMax }),
    writeConcern: { w: 'majority', wtimeoutMS: writeMs, journal: true },
    readPreference: 'primary',
  } as const;
}

/** The options of a connection string, by their names in lower case: the driver reads them in any case. */
function optionsIn(url: string): Map<string, string> {
  const options = new URLSearchParams(url.split('?').slice(1).join('?'));
  return new Map(Array.from(options, ([name, value]) => [name.toLowerCase(), value]));
}
