import type { Collection, Db } from 'mongodb';
import { z } from 'zod';
import {
  type Batch,
  type BatchResult,
  type BatchRetry,
  batchResultSchema,
  batchRetrySchema,
  batchSchema,
  type StoredFile,
  storedFileSchema,
} from '../../../batches/batch.ts';
import { batchRoomSchema } from '../../../batches/batch-room.ts';
import { storedJson } from '../../adapters/stored-json.ts';
import { type CollectionIndexes, index } from '../database/mongo-indexes.ts';

const fileDocumentSchema = storedFileSchema.omit({ id: true }).extend({ _id: z.string() });

/**
 * `open` is the batch's own id, and missing if the batch is not open, so that a sparse index has the open batches in order. `metadata` is
 * text, because names from a client would be read as paths and operators.
 */
const batchDocumentSchema = batchSchema
  .omit({ id: true })
  .extend({ _id: z.string(), open: z.string().optional(), metadata: storedJson.nullable() });

/** `revision` counts all changes. */
const roomDocumentSchema = batchRoomSchema.extend({ _id: z.string(), revision: z.int() });

export type RoomDocument = z.infer<typeof roomDocumentSchema>;
type FileDocument = z.infer<typeof fileDocumentSchema>;
/**
 * `claim` and `ended` are not part of the schema, because changes of a batch do not change them. `ended` is the batch's own id while the
 * event of its end waits, so that a sparse index has these batches in order.
 */
type BatchDocument = z.input<typeof batchDocumentSchema> & { claim?: string; ended?: string };
export type ResultDocument = BatchResult & { _id: string };
type RetryDocument = BatchRetry & { _id: string };

const options = { ignoreUndefined: true } as const; // the driver would write an undefined field as null

export function filesOf(database: Db): Collection<FileDocument> {
  return database.collection('files', options);
}

export function batchesOf(database: Db): Collection<BatchDocument> {
  return database.collection('batches', options);
}

export function roomsOf(database: Db): Collection<RoomDocument> {
  return database.collection('batch_rooms', options);
}

export function resultsOf(database: Db): Collection<ResultDocument> {
  return database.collection('batch_results', options);
}

export function retriesOf(database: Db): Collection<RetryDocument> {
  return database.collection('batch_retries', options);
}

export const batchIndexes: readonly CollectionIndexes[] = [
  {
    collection: 'files',
    indexes: [
      index({ account: 1, state: 1, _id: 1 }),
      index({ account: 1, purpose: 1, state: 1, _id: 1 }),
      index({ account: 1, state: 1, keyId: 1, purpose: 1, _id: 1 }),
      index({ state: 1, expiresAt: 1 }),
      index({ account: 1, state: 1, bytes: 1 }),
    ],
  },
  {
    collection: 'batches',
    indexes: [
      index({ account: 1, _id: 1 }),
      index({ account: 1, keyId: 1, _id: 1 }),
      index({ open: 1 }, { sparse: true }),
      index({ account: 1, open: 1 }),
      index({ claim: 1 }, { unique: true, sparse: true }),
      index({ ended: 1 }, { sparse: true }),
    ],
  },
  { collection: 'batch_results', indexes: [index({ batch: 1, failed: 1 })] },
];

export function toFileDocument(file: StoredFile): FileDocument {
  const { id: _id, ...fields } = storedFileSchema.parse(file);
  return { _id, ...fields };
}

export function readFileDocument({ _id: id, ...fields }: { _id: unknown }): StoredFile {
  return storedFileSchema.parse({ ...fields, id });
}

export function toBatchDocument(batch: Batch): BatchDocument {
  const { id: _id, open, metadata, ...fields } = batchSchema.parse(batch);
  return { _id, ...fields, metadata: metadata && JSON.stringify(metadata), ...(open && { open: _id }) };
}

export function readBatchDocument(found: unknown): Batch {
  const { _id: id, open, ...fields } = batchDocumentSchema.parse(found);
  return batchSchema.parse({ ...fields, id, open: open !== undefined });
}

/**
 * Returns the update that replaces the document. An empty `$unset` is an error for servers before 5.0, but at least one time is always
 * missing.
 */
export function toBatchUpdate({ _id, ...fields }: BatchDocument): object {
  const names = Object.keys(batchDocumentSchema.shape).filter((name) => name !== '_id');
  const absent = names.filter((name) => !(name in fields));
  return { $set: fields, $unset: Object.fromEntries(absent.map((name) => [name, ''])) };
}

export function readRoomDocument(found: unknown): RoomDocument {
  return roomDocumentSchema.parse(found);
}

export function toResultDocument(result: BatchResult): ResultDocument {
  const written = batchResultSchema.parse(result);
  return { _id: lineId(written.batch, written.line), ...written };
}

export function readResultDocument(found: unknown): BatchResult {
  return batchResultSchema.parse(found);
}

export function toRetryDocument(retry: BatchRetry): RetryDocument {
  return { _id: lineId(retry.batch, retry.line), ...retry };
}

export function readRetryDocument(found: unknown): BatchRetry {
  return batchRetrySchema.parse(found);
}

const lineDigits = 8;

/** Returns an id that sorts by the line within its batch. */
export function lineId(batch: string, line: number): string {
  return `${batch}-${String(line).padStart(lineDigits, '0')}`;
}

export function lineOf(id: string): number {
  return Number(id.slice(-lineDigits));
}

/** Selects the ids of all lines of a batch after this one. A colon sorts after all digits. */
export function linesAfter(batch: string, line: number): { _id: { $gt: string; $lt: string } } {
  return { _id: { $gt: lineId(batch, line), $lt: `${batch}-:` } };
}
