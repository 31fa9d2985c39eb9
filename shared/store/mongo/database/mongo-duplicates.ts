import { MongoBulkWriteError } from 'mongodb';

export const duplicateKey = 11_000;

/**
 * Returns the indexes of those writes in an unordered bulk write that were refused because a document with that key exists. Throws every
 * other failure.
 */
export async function refusedAsDuplicates(write: Promise<unknown>): Promise<number[]> {
  try {
    await write;
    return [];
  } catch (error) {
    if (!(error instanceof MongoBulkWriteError) || error.result.getWriteConcernError() !== undefined) throw error;
    const errors = [error.writeErrors].flat();
    if (errors.length === 0 || errors.some(({ code }) => code !== duplicateKey)) throw error;
    return errors.map(({ index }) => index);
  }
}
