import { type CommandStartedEvent, MongoClient } from 'mongodb';
import { z } from 'zod';
import { allIndexes } from '../../../shared/store/mongo/mongo-store.ts';
import { knownExceptions, knownScans, shardKeys } from './shard-keys.ts';

const filter = z.record(z.string(), z.unknown());
const writes = z.array(z.object({ q: filter }));
const documents = z.array(filter);
const stages = z.array(z.object({ $match: filter.optional() }));
/** They have no filter, or continue a command that had one. */
const ignored = new Set(['createIndexes', 'listIndexes', 'getMore', 'killCursors', 'drop', 'dropIndexes']);

type Sent = { commandName: string; command: Readonly<Record<string, unknown>> };

/** Returns each kind of filter of a command on a sharded collection that does not name one shard: `<command> <collection> <fields>`. */
export function withoutShardKey({ commandName, command }: Sent): string[] {
  const collection = String(command[commandName]);
  const key = shardKeys[collection];
  if (key === undefined || ignored.has(commandName)) return [];
  // A prefix of a compound key names few shards.
  const [field = ''] = Object.keys(key);
  const wrong = filtersOf({ commandName, command }).filter((one) => !isExact(one[field]));
  return wrong.map((one) => `${commandName} ${collection} ${Object.keys(one).sort().join(',')}`);
}

function filtersOf({ commandName, command }: Sent): Record<string, unknown>[] {
  switch (commandName) {
    case 'insert':
      return documents.parse(command.documents);
    case 'update':
      return writes.parse(command.updates).map(({ q }) => q);
    case 'delete':
      return writes.parse(command.deletes).map(({ q }) => q);
    case 'find':
      return [filter.parse(command.filter)];
    case 'aggregate':
      return [stages.parse(command.pipeline)[0]?.$match ?? {}];
    case 'count':
      // Without a filter it reads metadata of each shard.
      return command.query === undefined ? [] : [filter.parse(command.query)];
    default:
      return [{ 'a command that this check does not know': true }];
  }
}

/** A value, or a list of them; anything else with an operator is a range or a condition. */
function isExact(value: unknown): boolean {
  if (value === undefined) return false;
  const operators = z.record(z.string(), z.unknown()).safeParse(value).data ?? {};
  const names = Object.keys(operators).filter((name) => name.startsWith('$'));
  return names.length === 0 || names.includes('$in') || names.includes('$eq');
}

const indexesOf = Map.groupBy(allIndexes, ({ collection }) => collection);

/**
 * Returns each kind of filter of a command that no index serves, so that MongoDB reads the whole collection: `<command> <collection>
 * <fields>`. Reading some documents in the order of an index is served.
 */
export function withoutIndex({ commandName, command }: Sent): string[] {
  const collection = String(command[commandName]);
  if (!['find', 'update', 'delete', 'aggregate', 'count'].includes(commandName)) return [];
  const indexes = (indexesOf.get(collection) ?? []).flatMap(({ indexes }) => indexes);
  const served = new Set(['_id', ...indexes.map(({ key }) => Object.keys(key)[0] ?? '')]);
  const isServed = (one: Readonly<Record<string, unknown>>): boolean =>
    Object.entries(one).some(([field, value]) =>
      [field, ...fieldsOfItem(field, value)].some((name) => served.has(name)),
    ) ||
    (one.$or !== undefined && documents.parse(one.$or).every(isServed)) ||
    (one.$and !== undefined && documents.parse(one.$and).some(isServed));
  // The driver sends the order as a map.
  const sort = command.sort instanceof Map ? Object.fromEntries(command.sort) : (command.sort ?? {});
  const [order = ''] = Object.keys(filter.parse(sort));
  if (command.limit !== undefined && served.has(order)) return [];
  const isAnyOne = commandName === 'find' && command.limit === 1;
  const wrong = filtersOf({ commandName, command }).filter(
    (one) => !isServed(one) && !(isAnyOne && Object.keys(one).length === 0),
  );
  return wrong.map((one) => `${commandName} ${collection} ${Object.keys(one).sort().join(',')}`);
}

const inItem = z.object({ $elemMatch: filter });

/** The fields of an item of a list, as an index names them. */
function fieldsOfItem(list: string, value: unknown): string[] {
  const { data } = inItem.safeParse(value);
  return Object.keys(data?.$elemMatch ?? {}).map((field) => `${list}.${field}`);
}

/** Watches what clients send whose URL is `watched`. The returned function lists what is on no list of exceptions. */
export function watchCommands(): () => string[] {
  const found = new Set<string>();
  const { connect } = MongoClient.prototype;
  const watched = new WeakSet<MongoClient>();
  MongoClient.prototype.connect = function connectWatched(this: MongoClient) {
    if (!watched.has(this)) {
      watched.add(this);
      this.on('commandStarted', (event: CommandStartedEvent) => {
        for (const wrong of withoutShardKey(event)) if (!(wrong in knownExceptions)) found.add(wrong);
        for (const wrong of withoutIndex(event)) if (!(wrong in knownScans)) found.add(`${wrong}: without an index`);
      });
    }
    return connect.call(this);
  };
  return () => [...found].sort();
}

/** Makes the driver report the commands of a client. */
export function watched(url: string): string {
  return `${url}${url.includes('?') ? '&' : '?'}monitorCommands=true`;
}
