import test from 'ava';
import { Registry } from 'prom-client';
import { createIndexMetrics, createObserveIndexes } from '../../../workers/upkeep/start-maintenance.ts';
import { recordedLog } from '../../support/recorded-log.ts';

test('missing indexes are a gauge, and are logged by name once until they change', async (t) => {
  const { log, lines } = recordedLog();
  let [missing, at, looks]: [string[] | undefined, number, number] = [['b.month_1', 'a.key_1'], 0, 0];
  const store = {
    async listMissingIndexes() {
      looks += 1;
      if (missing === undefined) throw new Error('unavailable');
      return [...missing];
    },
  };
  const registry = new Registry();
  createIndexMetrics(registry).observeIndexes(createObserveIndexes({ store, log, now: () => at }));
  const value = async () => /^svc_store_indexes_missing (\d+)$/m.exec(await registry.metrics())?.[1];

  t.is(await value(), '2');
  t.is(await value(), '2');
  t.is(looks, 1, 'scrapes within a minute share one look');
  at += 60_000;
  t.is(await value(), '2');
  t.deepEqual([looks, lines.length], [2, 1]);
  t.deepEqual(lines[0]?.fields, { indexes: ['a.key_1', 'b.month_1'] });

  missing = undefined;
  at += 60_000;
  t.is(await value(), undefined, 'unknown while the store does not answer');
  missing = [];
  at += 60_000;
  t.is(await value(), '0');
  t.is(lines.length, 2);
});
