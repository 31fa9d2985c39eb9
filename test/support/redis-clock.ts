import type { Redis } from '../../shared/redis/connections.ts';

const clockLine = "local clock = redis.call('TIME')";
const clockKey = 'test:clock';

/**
 * Makes every script with a clock that is loaded on this connection from now on read its time from a key instead of from Redis, so that a
 * test can test exact boundaries. Returns a function that sets that time, in milliseconds.
 */
export function replaceClock(redis: Redis): (nowMs: number) => Promise<void> {
  useClock(redis, `redis.call('LRANGE', '${clockKey}', 0, 1)`);
  return async function setTime(nowMs) {
    const microseconds = (nowMs % 1000) * 1000 + 999; // a script rounds down
    await redis
      .multi()
      .del(clockKey)
      .rpush(clockKey, Math.floor(nowMs / 1000), microseconds)
      .exec();
  };
}

/** The same with a time that does not change. In a cluster scripts of all slots can use it. */
export function fixClock(redis: Redis, nowMs: number): void {
  useClock(redis, `{ '${Math.floor(nowMs / 1_000)}', '${(nowMs % 1_000) * 1_000}' }`);
}

function useClock(redis: Redis, clock: string): void {
  const defineCommand = redis.defineCommand.bind(redis);
  redis.defineCommand = (name, definition) => {
    const lua = definition.lua.replace(clockLine, `local clock = ${clock}`);
    if (lua.includes("redis.call('TIME')")) throw new Error(`the script ${name} does not begin with its clock`);
    defineCommand(name, { ...definition, lua });
  };
}
