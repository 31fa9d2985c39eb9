import { within } from '../../shared/concurrency/shutdown.ts';
import { toApiError } from '../../shared/errors.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Caller } from '../../shared/store/records/account.ts';
import type { AccountStore, KeyUse as NotedUse } from '../../shared/store/records/account-store.ts';

const minuteMs = 60_000;
/** Uses of more keys than this within a minute are not recorded, to bound memory. */
const keysMax = 100_000;
const usesPerCall = 500;
const closeMs = 3_000;

/** Collects uses for half a minute and writes them in batches; if the store is unavailable, it writes them later. */
export function createKeyUse({
  store,
  log,
  now = Date.now,
  everyMs = 30_000,
}: {
  store: Pick<AccountStore, 'recordKeyUse'>;
  log: Log;
  now?: () => number;
  everyMs?: number;
}) {
  const waiting = new Map<string, NotedUse>();
  /** The time until which a key needs no further record. */
  const noted = new Map<string, number>();
  let writing: Promise<void> | undefined;

  async function write(): Promise<void> {
    const uses = [...waiting.values()];
    for (let start = 0; start < uses.length; start += usesPerCall) {
      const batch = uses.slice(start, start + usesPerCall);
      await store.recordKeyUse(batch).catch(ignoreUnlessUnavailable);
      for (const use of batch) if (waiting.get(use.keyId) === use) waiting.delete(use.keyId);
    }
  }

  /** Drops uses that the store rejects permanently, so that later ones do not wait for them. */
  function ignoreUnlessUnavailable(error: unknown): void {
    if (toApiError(error).code === 'SERVICE_UNAVAILABLE') throw error;
    log.warn({ err: error }, 'uses of some keys could not be written');
  }

  function writeOnce(): Promise<void> {
    for (const [keyId, until] of noted) if (until <= now()) noted.delete(keyId);
    writing ??= write()
      .catch((error: unknown) => log.debug({ err: error }, 'uses of keys will be written later'))
      .finally(() => {
        writing = undefined;
      });
    return writing;
  }

  const timer = setInterval(writeOnce, everyMs).unref();
  return {
    note({ account, keyId }: Pick<Caller, 'account' | 'keyId'>): void {
      if (keyId === undefined || (noted.get(keyId) ?? 0) > now()) return;
      if (noted.size >= keysMax || waiting.size >= keysMax) return;
      const minute = Math.floor(now() / minuteMs) * minuteMs;
      noted.set(keyId, minute + minuteMs);
      waiting.set(keyId, { account, keyId, at: new Date(minute) });
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      // A write in progress began before the last uses.
      await within(closeMs, writeOnce().then(writeOnce));
    },
  };
}

/** Records when keys were last used, to the minute, without delaying requests. */
export type KeyUse = ReturnType<typeof createKeyUse>;
