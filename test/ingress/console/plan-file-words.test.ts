import test from 'ava';
import { errorsByCode } from '../../../ingress/console/operators/account-errors.ts';
import { auditQuery } from '../../../ingress/console/operators/audit-words.ts';
import { otherSettings, pricesOf } from '../../../ingress/console/operators/plan-file-words.ts';
import type { RawPlanFile } from '../../../shared/plan-file/plan-file-schema.ts';

/** Parts of a plan file are enough here. */
const partOf = (planFile: object) => planFile as RawPlanFile;

test('settings are in words with their units, and one that is not known has the words of its name', (t) => {
  const rows = otherSettings(
    partOf({
      ...{ plans: {}, models: {}, default_plan: 'free', prices: {}, guest_days_kept: 400, media_hosts: [] },
      batch: {
        window_s: 86_400,
        file_bytes_max: 104_857_600,
        upload_bytes_per_second_min: 1_024,
        requests_max: 50_000,
      },
      timeouts: { connect_ms: 2_000, idle_ms: 500 },
      new_setting: true,
    }),
  );
  t.deepEqual(
    rows.map(({ words, value }) => `${words}: ${value}`),
    [
      'A device without use is removed after: 400 days',
      'Hosts of images, audio and files in requests: none',
      'A batch expires after: 1 d',
      'Size of an input file, at most: 100.0 MiB',
      'Rate of an upload, at least: 1.0 KiB a second',
      'Lines of an input file, at most: 50,000',
      'Time to connect to a backend: 2 s',
      'Time between two events of a stream: 500 ms',
      'new setting: yes',
    ],
  );
});

test('prices are rows, of which a cached token costs as others unless the file says so', (t) => {
  const from = '2026-03-01';
  t.deepEqual(pricesOf(partOf({ prices: { 'small-chat': [{ from, prompt: '0.15', completion: '0.60' }] } })), [
    { model: 'small-chat', from, prompt: '0.15', cached: '0.15', completion: '0.60' },
  ]);
  t.deepEqual(pricesOf(partOf({})), []);
});

test('errors of hours are sums by code, with the last hour in which there were some', (t) => {
  const counts = {
    ...{ requests: 1, failed: 1, cancelled: 0, promptTokens: 0, cachedTokens: 0, completionTokens: 0 },
    ...{ chargedTokens: 0, overageTokens: 0 },
  };
  const row = (hour: string, model: string, errors: Record<string, number>) => ({
    ...{ ...counts, hour: `2026-03-01T${hour}:00:00.000Z`, model, errors },
  });
  const rows = [
    row('04', 'small-chat', { UPSTREAMS_EXHAUSTED: 2 }),
    row('06', 'large-chat', { UPSTREAMS_EXHAUSTED: 1, DEADLINE_EXCEEDED: 1 }),
    row('05', '-', { rate_limit_exceeded: 9 }),
  ];
  t.deepEqual(errorsByCode(rows), [
    {
      ...{ code: 'rate_limit_exceeded', count: 9, listed: 0, models: [] },
      lastHour: Date.parse('2026-03-01T05:00:00Z') / 1_000,
    },
    {
      ...{ code: 'UPSTREAMS_EXHAUSTED', count: 3, listed: 3, models: ['small-chat', 'large-chat'] },
      lastHour: Date.parse('2026-03-01T06:00:00Z') / 1_000,
    },
    {
      code: 'DEADLINE_EXCEEDED',
      count: 1,
      listed: 1,
      models: ['large-chat'],
      lastHour: Date.parse('2026-03-01T06:00:00Z') / 1_000,
    },
  ]);
});

test('the days of the audit trail are times of the API, which ends before its end', (t) => {
  t.deepEqual(auditQuery({ kind: 'key', start: '2026-02-28', end: '2026-02-28' }), {
    kind: 'key',
    start: '2026-02-28T00:00:00.000Z',
    end: '2026-03-01T00:00:00.000Z',
  });
  t.deepEqual(auditQuery({ actor: 'user:olga', start: 'yesterday', end: '2026-99-99' }), { actor: 'user:olga' });
});
