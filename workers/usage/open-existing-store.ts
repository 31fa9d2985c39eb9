import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { openStore } from '../../shared/open-store.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Store } from '../../shared/store/store.ts';

/** The reason why the comparison cannot run. `message` is for the operator. It has no address, because that can hold a password. */
export class CannotReconcile extends Error {
  override readonly name = 'CannotReconcile';
}

/** Opens the store at this `DATABASE_URL`. A missing file is an error: it would be created, and an empty store has no drift. */
export async function openExistingStore(url: string, log: Log): Promise<Store> {
  const file = /^sqlite:(.+)$/.exec(url)?.[1];
  if (file !== undefined && !existsSync(resolve(file))) {
    throw new CannotReconcile('DATABASE_URL names a file that does not exist.');
  }
  try {
    return await openStore(url, { log });
  } catch (error) {
    throw new CannotReconcile(error instanceof Error ? error.message : 'The store cannot be opened.', { cause: error });
  }
}
