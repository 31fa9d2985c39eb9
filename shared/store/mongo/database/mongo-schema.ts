import type { Db } from 'mongodb';
import { z } from 'zod';
import { RefusedSchema } from '../../adapters/store-errors.ts';
import { refusedAsDuplicates } from './mongo-duplicates.ts';

/** The number of the form that documents have, which the store keeps (contract.md#s2-stored-data). */
export const schemaNumber = 1;

const schemaDocument = z.object({ number: z.int() }).nullable();

/** Notes the number in an empty store. Throws if the store has another number, or data without one. */
export async function checkSchema(database: Db): Promise<void> {
  const schemas = database.collection<{ _id: string; number: number }>('schema');
  const read = async () => schemaDocument.parse(await schemas.findOne({ _id: 'store' }))?.number;
  let found = await read();
  if (found === undefined && (await hasData(database))) found = (await read()) ?? 0; // the first process notes it before it writes data
  if (found === undefined) {
    // Another process may have noted it in the meantime.
    await refusedAsDuplicates(schemas.insertMany([{ _id: 'store', number: schemaNumber }], { ordered: false }));
    found = (await read()) ?? schemaNumber;
  }
  if (found !== schemaNumber) throw new RefusedSchema({ found, expected: schemaNumber });
}

async function hasData(database: Db): Promise<boolean> {
  const found = await Promise.all(['accounts', 'batches'].map((name) => database.collection(name).findOne()));
  return found.some((document) => document !== null);
}
