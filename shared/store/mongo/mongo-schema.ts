import { randomUUID } from 'node:crypto';
import type { Db } from 'mongodb';
import { z } from 'zod';
import { RefusedStore, refusedSchema } from '../documents/store-errors.ts';
import { refusedAsDuplicates } from './mongo-indexes.ts';

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
  if (found !== schemaNumber) throw refusedSchema({ found, expected: schemaNumber });
}

async function hasData(database: Db): Promise<boolean> {
  const found = await Promise.all(['accounts', 'batches'].map((name) => database.collection(name).findOne()));
  return found.some((document) => document !== null);
}

/**
 * In each of the rounds, as many updates at once. On a busy machine FerretDB 1.24 lets several pass in one first round of four, while the
 * connections are being opened, and in four of five later ones: eight rounds together miss it once in 100,000 starts.
 */
const [rounds, updatesAtOnce] = [8, 50];
/** What a process left that was killed during its check. */
const scratchMs = 3_600_000;

/**
 * Checks with a document of its own that of several updates for the same version exactly one is made. The state of accounts, batches and
 * sums is exact only because of that. Throws if the server makes more (contract.md#pa3-kinds-of-stores).
 */
export async function checkAtomicUpdates(database: Db): Promise<void> {
  const scratch = database.collection<{ _id: string; version: number; checkedAt: Date }>('schema');
  const _id = `check ${randomUUID()}`;
  await scratch.insertOne({ _id, version: 0, checkedAt: new Date() });
  try {
    for (let version = 0; version < rounds; version += 1) {
      const update = () => scratch.updateOne({ _id, version }, { $set: { version: version + 1 } });
      const outcomes = await Promise.all(Array.from({ length: updatesAtOnce }, update));
      const made = outcomes.filter(({ matchedCount }) => matchedCount === 1).length;
      if (made > 1) throw notAtomic(made);
      if (made === 0) throw new Error('the document of the check of updates was removed meanwhile'); // the next call checks again
    }
  } finally {
    await scratch.deleteOne({ _id });
    await scratch.deleteMany({ checkedAt: { $lt: new Date(Date.now() - scratchMs) } });
  }
}

function notAtomic(made: number): RefusedStore {
  return new RefusedStore(
    `the server does not update documents atomically: of ${updatesAtOnce} updates for one version it made ${made}. Use MongoDB itself: servers that only speak its protocol, such as FerretDB, would lose changes`,
  );
}
