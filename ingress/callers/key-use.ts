import type { Caller } from '../../shared/caller.ts';
import { toApiError } from '../../shared/errors.ts';
import type { Log } from '../../shared/process/log.ts';
import { within } from '../../shared/process/shutdown.ts';
import type { Store } from '../../shared/store/store.ts';

/** Notes when keys were last used, to the minute, without holding up anybody. */
export interface KeyUse extends AsyncDisposable {
  note(caller: Pick<Caller, 'account' | 'keyId'>): void;
}

const minuteMs = 60_000;
/** Keys in use beyond this many within a minute are left without their note, not the process without its memory. */
const keysMax = 100_000;
const usesPerCall = 500;
const closeMs = 3_000;

/** Gathers notes for half a minute and writes them in batches; a store that is away gets them when it is back. */
export function createKeyUse({
  store,
  log,
  now = Date.now,
  everyMs = 30_000,
}: {
  store: Pick<Store, 'recordKeyUse'>;
  log: Log;
  now?: () => number;
  everyMs?: number;
}): KeyUse {
  const waiting = new Map<string, { account: string; keyId: string; at: Date }>();
  /** Until when a key needs no further note. */
  const noted = new Map<string, number>();
  let writing: Promise<void> | undefined;

  async function write(): Promise<void> {
    const uses = [...waiting.values()];
    for (let start = 0; start < uses.length; start += usesPerCall) {
      const batch = uses.slice(start, start + usesPerCall);
      await store.recordKeyUse(batch).catch(ignoreUnlessAway);
      for (const use of batch) if (waiting.get(use.keyId) === use) waiting.delete(use.keyId);
    }
  }

  /** Notes that a store cannot take at any time are given up: those behind them are not to wait for that. */
  function ignoreUnlessAway(error: unknown): void {
    if (toApiError(error).code === 'SERVICE_UNAVAILABLE') throw error;
    log.warn({ err: error }, 'when some keys were used cannot be written');
  }

  function writeOnce(): Promise<void> {
    for (const [keyId, until] of noted) if (until <= now()) noted.delete(keyId);
    writing ??= write()
      .catch((error: unknown) => log.debug({ err: error }, 'when keys were used is written later'))
      .finally(() => {
        writing = undefined;
      });
    return writing;
  }

  const timer = setInterval(writeOnce, everyMs).unref();
  return {
    note({ account, keyId }) {
      if (keyId === undefined || (noted.get(keyId) ?? 0) > now()) return;
      if (noted.size >= keysMax || waiting.size >= keysMax) return;
      const minute = Math.floor(now() / minuteMs) * minuteMs;
      noted.set(keyId, minute + minuteMs);
      waiting.set(keyId, { account, keyId, at: new Date(minute) });
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      // One that is under way began before the last notes.
      await within(closeMs, writeOnce().then(writeOnce));
    },
  };
}
