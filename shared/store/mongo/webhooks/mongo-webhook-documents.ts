import type { Collection } from 'mongodb';
import type { z } from 'zod';
import { captureDecision } from '../../adapters/capture-decision.ts';
import type { DecideDocument } from '../../webhooks/webhook-store.ts';
import type { MongoCalls } from '../database/mongo-calls.ts';
import { changeGuarded } from '../database/mongo-change.ts';
import { refusedAsDuplicates } from '../database/mongo-duplicates.ts';
import { type CollectionIndexes, index } from '../database/mongo-indexes.ts';

export const webhookIndexes: readonly CollectionIndexes[] = [
  {
    collection: 'webhook_deliveries',
    indexes: [
      index({ endpoint: 1, nextAt: 1 }),
      index({ endpoint: 1, createdAt: -1, _id: -1 }),
      index({ endpoint: 1, state: 1, createdAt: -1, _id: -1 }),
      index({ createdAt: 1 }),
    ],
  },
  { collection: 'webhook_schedules', indexes: [index({ dueAt: 1, _id: 1 })] },
];

export type Versioned = { version: number };
export type Stored<Kept> = Kept & { _id: string };

/** Documents of one collection, under the id that `idOf` returns. */
export function createMongoDocuments<Kept extends Versioned>(
  { call, durable, database }: MongoCalls,
  { name, schema, idOf }: { name: string; schema: z.ZodObject & z.ZodType<Kept>; idOf: (kept: Kept) => string },
) {
  // The driver would write an undefined field as null.
  const collection: Collection<Versioned & { _id: string }> = database.collection(name, { ignoreUndefined: true });
  const names = Object.keys(schema.shape);

  async function read(id: string): Promise<Kept | undefined> {
    const found = await collection.findOne({ _id: id }, durable());
    return found === null ? undefined : schema.parse(found);
  }

  function toDocument(kept: Kept): Stored<Kept> {
    const written = schema.parse(kept);
    return { ...written, _id: idOf(written) };
  }

  /** Returns false if the document has changed since the decision. */
  async function write(next: Kept, decidedOn: Kept | undefined): Promise<boolean> {
    const { _id, ...fields } = toDocument({ ...next, version: (decidedOn?.version ?? 0) + 1 });
    if (decidedOn === undefined) {
      const document = { _id, ...fields };
      return (await refusedAsDuplicates(collection.insertMany([document], { ordered: false }))).length === 0;
    }
    const absent = names.filter((field) => !(field in fields));
    const update: object = {
      $set: fields,
      ...(absent.length > 0 && { $unset: Object.fromEntries(absent.map((field) => [field, ''])) }),
    };
    return (await collection.updateOne({ _id, version: decidedOn.version }, update)).matchedCount === 1;
  }

  return {
    collection,
    toDocument,
    parse: (found: unknown): Kept => schema.parse(found),
    find: (id: string) => call(() => read(id)),

    async change<Result>(id: string, decide: DecideDocument<Kept, Result>): Promise<Result> {
      const change = { read: () => read(id), decide: captureDecision(decide), write };
      const result = await call((signal) => changeGuarded(change, signal));
      return result();
    },
  };
}
