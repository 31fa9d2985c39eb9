import { MongoBulkWriteError } from 'mongodb';

const duplicateKey = 11_000;

/**
 * The places, in an unordered bulk write, of those writes that were refused because a document of that key is there already.
 * Every other failure of it is passed on.
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
