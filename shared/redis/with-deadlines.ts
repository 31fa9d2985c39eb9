import type { Cluster, Command, Redis } from 'ioredis';

/** Timeout of a call that a client waits for. */
export const requestTimeoutMs = 1_000;
/** The same while the slot of its keys moves to another node: a script cannot run until all of its keys have moved. */
export const movingTimeoutMs = 4_000;

/**
 * The library's own `commandTimeout` also fails calls whose answer arrived while this process was blocked, because timers run before
 * sockets are read. Here the sockets are read first (decisions.md#deadlines-that-read-first).
 */
export function withDeadlines<Connection extends Redis | Cluster>(redis: Connection): Connection {
  const send: Send = redis.sendCommand.bind(redis);
  redis.sendCommand = (command: Command, stream?: never, node?: never) => {
    const { resolve, reject } = command;
    const fail = () => command.reject(new Error('Command timed out'));
    let late = setTimeout(setImmediate, requestTimeoutMs, fail);
    command.resolve = (answer) => {
      clearTimeout(late);
      resolve(answer);
    };
    command.reject = (error) => {
      clearTimeout(late);
      reject(error);
    };
    const answer = send(command, stream, node);
    if (redis.isCluster)
      onceMoving(command, () => {
        clearTimeout(late);
        late = setTimeout(setImmediate, movingTimeoutMs, fail);
      });
    return answer;
  };
  return redis;
}

type Send = (command: Command, stream?: never, node?: never) => unknown;

/** By now, the library's `reject` of a command in a cluster is the one that may send it again. */
function onceMoving(command: Command, onMoving: () => void): void {
  const { reject } = command;
  let isMoving = false;
  command.reject = (error) => {
    if (!isMoving && error.message.startsWith('TRYAGAIN')) {
      isMoving = true;
      onMoving();
    }
    reject(error);
  };
}
