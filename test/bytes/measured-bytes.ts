import { type Bytes, type ItemBytes, itemBytes } from '../../workers/memory/item-bytes.ts';
import type { createMongoHome } from '../support/mongodb/mongo-home.ts';
import { measureRedis } from './measure-redis.ts';
import { measureMongo, measureSqlite } from './measure-store.ts';

/** How far a measured value may be from the one of the table. Another version of a server may need a little more or less. */
export const tolerance = 0.25;

type OpenHome = () => ReturnType<typeof createMongoHome>;

/** Measures every item in the servers that the tests use. Without a MongoDB, its part stays as it was. */
export async function measureBytes(openMongo: OpenHome | undefined): Promise<ItemBytes> {
  const mongodb = openMongo === undefined ? itemBytes.mongodb : await measureMongo(openMongo);
  return { redis: await measureRedis(), sqlite: await measureSqlite(), mongodb };
}

/** The items whose bytes differ by more than the tolerance, or that only one side has. */
export function differing(known: Readonly<Record<string, Bytes>>, measured: Readonly<Record<string, Bytes>>): string[] {
  const names = new Set([...Object.keys(known), ...Object.keys(measured)]);
  return [...names].flatMap((name) => {
    const [one, other] = [known[name], measured[name]];
    if (one === undefined || other === undefined) return [`${name} is missing`];
    const fields = ['bytes', 'perKibibyte'] as const;
    return fields
      .filter((field) => Math.abs((other[field] ?? 0) - (one[field] ?? 0)) > tolerance * (one[field] ?? 0))
      .map((field) => `${name}: ${field} is ${one[field]}, measured ${other[field]}`);
  });
}
