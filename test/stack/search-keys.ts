import { createReadStream } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { MongoClient } from 'mongodb';
import { isWellFormedKey } from '../../ingress/authentication/api-key.ts';
import type { ServiceProcess } from './service-process.ts';

/**
 * Every full API key in this text, recognized by form and checksum: a random text matches one time in 57 billion. Bytes of files are
 * searched as Latin-1, in which a key has the same characters as in UTF-8.
 */
export function fullKeysIn(text: string): string[] {
  return [...text.matchAll(/svc_[0-9A-Za-z]{38}/g)].map(([key]) => key).filter(isWellFormedKey);
}

/** Part of the requests of tests: no log may contain a request. */
export const canary = 'canary-9f1c';

export type Remains = {
  directory: string;
  processes: readonly ServiceProcess[];
  databaseUrl?: string | undefined;
  /** Texts that no log may contain. */
  secrets?: () => readonly string[];
};

/**
 * Throws when anything that a stack leaves behind contains a full key: the data of its Redis with the log of all writes, its store, and
 * the logs of its processes. The logs must contain no request and no secret either.
 */
export async function requireNoFullKeys({ directory, processes, databaseUrl, secrets }: Remains): Promise<void> {
  const found: string[] = [];
  const unwanted = [canary, ...(secrets?.() ?? [])];
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  for (const entry of entries.filter((each) => each.isFile())) {
    const file = join(entry.parentPath, entry.name);
    if (await hasFullKey(file)) found.push(file);
  }
  for (const { pid, logs, errors } of processes) {
    const log = `${JSON.stringify(logs)}${errors()}`;
    if (fullKeysIn(log).length > 0 || unwanted.some((text) => log.includes(text)))
      found.push(`the log of process ${pid}`);
  }
  if (databaseUrl?.startsWith('mongodb')) found.push(...(await collectionsWithKeys(databaseUrl)));
  if (found.length > 0) throw new Error(`A full API key, a request or a secret was left in: ${found.join(', ')}`);
}

const pieceBytes = 4_194_304;
const keyCharacters = 42;

/** The log of all writes of a Redis can be longer than the longest string. */
async function hasFullKey(file: string): Promise<boolean> {
  let end = '';
  for await (const piece of createReadStream(file, { encoding: 'latin1', highWaterMark: pieceBytes })) {
    if (fullKeysIn(end + piece).length > 0) return true;
    end = (end + piece).slice(1 - keyCharacters);
  }
  return false;
}

async function collectionsWithKeys(databaseUrl: string): Promise<string[]> {
  await using client = new MongoClient(databaseUrl);
  const found: string[] = [];
  for (const { name } of await client.db().listCollections({}, { nameOnly: true }).toArray()) {
    const documents = await client.db().collection(name).find().toArray();
    if (fullKeysIn(JSON.stringify(documents)).length > 0) found.push(`the collection ${name}`);
  }
  return found;
}
