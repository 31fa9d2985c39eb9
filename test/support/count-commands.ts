import type { Redis } from '../../shared/redis/connections.ts';

/** How often Redis ran each command while `work` ran, for all clients, including commands within scripts. */
export async function countCommands(redis: Redis, work: () => Promise<unknown>): Promise<Map<string, number>> {
  await redis.config('RESETSTAT');
  await work();
  const lines = (await redis.info('commandstats')).matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm);
  return new Map([...lines].map(([, command = '', calls]) => [command, Number(calls)]));
}
