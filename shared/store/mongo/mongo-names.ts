import { z } from 'zod';
import { folded, inOrderOfNames, lastNameFrom, type NameStore, nameStartsOf } from '../accounts/name-store.ts';
import type { MongoCalls } from './database/mongo-calls.ts';
import { accountsOf } from './mongo-account-documents.ts';

const namedSchema = z.object({ _id: z.string(), name: z.string() }).transform(({ _id: id, name }) => ({ id, name }));

const projection = { name: 1 } as const;
/** One query for 10,000 ids would be a document of megabytes. */
const idsAtOnce = 1_000;

/** Names are fields of the accounts' documents that changes of accounts do not write. */
export function createMongoNames({ call, durable, database }: MongoCalls): NameStore {
  const accounts = accountsOf(database);
  return {
    async keepName({ id: _id, name }) {
      const filter = { _id, name: { $ne: name }, removal: { $exists: false } };
      await call(() => accounts.updateOne(filter, { $set: { name, nameStarts: nameStartsOf(name) } }));
    },

    async findNames(ids) {
      const found = new Map<string, string>();
      for (let from = 0; from < ids.length; from += idsAtOnce) {
        const wanted = { _id: { $in: ids.slice(from, from + idsAtOnce) }, name: { $exists: true } };
        const documents = await call(() => accounts.find(wanted, { projection, ...durable() }).toArray());
        for (const { id, name } of z.array(namedSchema).parse(documents)) found.set(id, name);
      }
      return found;
    },

    async findNamed(text, limit) {
      const from = folded(text);
      const to = lastNameFrom(from);
      // One element must be in the range: the conditions alone could be met by two.
      const wanted = { nameStarts: { $elemMatch: { $gte: from, $lte: to } } };
      const documents = await call(() => accounts.find(wanted, { projection, limit, ...durable() }).toArray());
      return inOrderOfNames(z.array(namedSchema).parse(documents));
    },
  };
}
