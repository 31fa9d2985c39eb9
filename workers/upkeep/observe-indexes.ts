import type { Registry } from 'prom-client';
import type { Log } from '../../shared/process/log.ts';
import { observeGauge } from '../../shared/process/observe-gauge.ts';
import type { Store } from '../../shared/store/store.ts';

/** A scrape in between gets the last answer. */
const lookEveryMs = 60_000;

/** Returns how many indexes of the store are missing; undefined if the store does not answer. Logs their names when they change. */
export function createObserveIndexes({
  store,
  log,
  now = () => performance.now(),
}: {
  store: Pick<Store, 'listMissingIndexes'>;
  log: Pick<Log, 'warn' | 'info'>;
  now?: () => number;
}): () => Promise<number | undefined> {
  let last: { at: number; missing: Promise<number | undefined> } | undefined;
  let reported = '';

  async function look(): Promise<number | undefined> {
    try {
      const missing = (await store.listMissingIndexes()).sort();
      const names = missing.join(', ');
      if (names !== reported && missing.length > 0)
        log.warn({ indexes: missing }, 'the store has not all indexes; calls that need them are slow');
      else if (names !== reported) log.info({}, 'the store has all indexes');
      reported = names;
      return missing.length;
    } catch {
      return undefined; // the check of the store reports that it is unavailable
    }
  }

  return function observeIndexes() {
    if (last === undefined || now() - last.at >= lookEveryMs) last = { at: now(), missing: look() };
    return last.missing;
  };
}

/** Registers the gauge. `look` is called at each scrape. */
export function createIndexMetrics(registry: Registry) {
  return {
    observeIndexes: (look: () => Promise<number | undefined>): void =>
      observeGauge(registry, {
        name: 'svc_store_indexes_missing',
        help: 'Indexes that the store does not have; the log of this worker has their names',
        read: look,
      }),
  };
}
