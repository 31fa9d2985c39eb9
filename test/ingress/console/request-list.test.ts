import test from 'ava';
import type { Api } from '../../../ingress/console/api/api.ts';
import { isCounted, refusalsOf, reportOf, seriesOf } from '../../../ingress/console/requests/request-counts.ts';
import {
  exportedMax,
  joined,
  queryOf,
  type RequestRow,
  readForExport,
  readLatest,
  requestsCsv,
} from '../../../ingress/console/requests/request-list.ts';

const row: RequestRow = {
  ...{ id: 'req_1', answer_id: null, object: 'request', endpoint: '/v1/chat/completions', model: 'small-chat' },
  ...{ state: 'ended', outcome: 'failed', status: 503, code: 'UPSTREAMS_EXHAUSTED', created_at: 1_796_000_000 },
  ...{ queue_ms: 5, first_token_ms: null, duration_ms: 50, attempts: [], usage: null },
  ...{ charged_tokens: 3, key_id: 'key_1', batch_id: null },
};

test('lines of a batch that go on in the next page stay one row', (t) => {
  const line = { ...row, batch_id: 'batch_1' };
  const lines = { requests: 10, failed: 2, charged_tokens: 30 };
  const [first, second, ...rest] = joined([row, { ...line, lines }], [{ ...line, id: 'req_2' }, row]);
  t.deepEqual([first, rest.length], [row, 1]);
  t.deepEqual(second?.lines, { requests: 11, failed: 3, charged_tokens: 33 });
  const other = { ...line, batch_id: 'batch_2' };
  t.is(joined([line], [other]).length, 2);
  t.deepEqual(
    joined([line, other], [other, row, line]).map(({ batch_id, lines: folded }) => [batch_id, folded?.requests]),
    [
      ['batch_1', 2],
      ['batch_2', 2],
      [null, undefined],
    ],
  );
  t.is(joined([row], [row]).length, 2);
});

test('the API is asked for the times of a range, and folds lines unless it lists one batch', (t) => {
  const now = Date.parse('2026-11-30T07:00:00Z') / 1_000;
  t.deepEqual(queryOf({ range: '1h', account: 'user:alice', code: 'INTERNAL_ERROR' }, now), {
    ...{ code: 'INTERNAL_ERROR', start: '2026-11-30T06:00:00Z', fold_lines: 'true' },
  });
  const own = { start: '2026-11-30T04:00:00Z', end: '2026-11-30T05:00:00Z', batch_id: 'batch_1' };
  t.deepEqual(queryOf(own, now), own);
});

test('an export reads all pages up to its bound, and knows whether there are more', async (t) => {
  /** Pages of a list with this many requests. */
  function listOf(total: number) {
    let sent = 0;
    return async (path: string) => {
      const limit = Number(new URLSearchParams(path.split('?')[1]).get('limit'));
      const data = Array.from({ length: Math.min(limit, total - sent) }, (_, index) => {
        return { ...row, id: `req_${sent + index}` };
      });
      sent += data.length;
      return { data, last_id: data.at(-1)?.id ?? null, has_more: sent < total };
    };
  }
  const progress: number[] = [];
  const exported = (total: number) => {
    const options = {
      filter: {},
      signal: new AbortController().signal,
      progress: (rows: number) => progress.push(rows),
    };
    return readForExport({ call: listOf(total) } as unknown as Api, options);
  };
  const few = await exported(250);
  t.deepEqual([few.data.length, few.hasMore, ...progress], [250, false, 100, 200, 250]);
  const many = await exported(exportedMax + 1);
  t.deepEqual([many.data.length, many.hasMore], [exportedMax, true]);
  t.false((await exported(exportedMax)).hasMore);
});

test('a request that comes while the list is read is in it, and an account has none only if nothing came', async (t) => {
  /** The answers of the list in turn. */
  const latest = (answers: RequestRow[][], filter = {}) => {
    const left = [...answers];
    const call = async () => ({ data: left.shift(), last_id: null, has_more: false });
    const options = { filter, wanted: 25, signal: new AbortController().signal };
    return readLatest({ call } as unknown as Api, options);
  };
  t.like(await latest([[row]]), { data: [row], hasNone: false });
  t.like(await latest([[], []]), { data: [], hasNone: true });
  t.like(await latest([[], [row], [row]]), { data: [row], hasNone: false });
  t.like(await latest([[], [row], []]), { data: [], hasNone: false });
  t.like(await latest([[]], { account: 'user:alice' }), { data: [], hasNone: false });
});

test('the file has what is shown, and no cell begins like a formula', (t) => {
  const lines = { requests: 10, failed: 2, charged_tokens: 30 };
  const text = requestsCsv([row, { ...row, batch_id: 'batch_1', lines }], new Map([['key_1', '=1+1']]));
  const [header, one, other] = text.split('\r\n').map((line) => line.split(','));
  const cells = (values: string[] | undefined) =>
    Object.fromEntries((header ?? []).map((name, index) => [name, values?.[index]]));
  t.like(cells(one), { id: 'req_1', result: '503 UPSTREAMS_EXHAUSTED', key: "'=1+1", lines: '', charged_tokens: '3' });
  t.like(cells(other), { batch_id: 'batch_1', lines: '10', lines_failed: '2', charged_tokens: '30' });
  t.true(requestsCsv([row], new Map([['key_1', 'say "x"']])).includes(',"say ""x""",'));
});

const counts = {
  ...{ requests: 10, failed: 2, cancelled: 1, promptTokens: 0, cachedTokens: 0, completionTokens: 0 },
  ...{ chargedTokens: 0, overageTokens: 0 },
};

test('requests of each hour are shown by how they ended, those of a filter only; refused ones are of no model', (t) => {
  const times = [0, 1].map((hour) => Date.parse('2026-11-30T04:00:00Z') / 1_000 + hour * 3_600);
  const steps = { unit: 'hour', times, stepSeconds: 3_600 } as const;
  t.deepEqual(Object.fromEntries(reportOf(steps, { key_id: 'key_1', model: 'a' })), {
    ...{ start: '2026-11-30T04', end: '2026-11-30T05', group_by: 'hour,model,key' },
  });
  const rows = [
    { hour: '2026-11-30T04:00:00Z', model: 'a', ...counts, refused: 0, errors: {} },
    { hour: '2026-11-30T04:00:00Z', model: 'b', ...counts },
    { hour: '2026-11-30T05:00:00Z', model: '-', ...counts, requests: 0, failed: 0, cancelled: 0, refused: 4 },
  ];
  const valuesOf = (filter: Parameters<typeof seriesOf>[2]) =>
    Object.fromEntries(seriesOf(steps, rows, filter).map(({ name, values }) => [name, values]));
  t.deepEqual(valuesOf({}), { completed: [14, 0], cancelled: [2, 0], refused: [0, 4], failed: [4, 0] });
  t.deepEqual(valuesOf({ model: 'a' }), { completed: [7, 0], cancelled: [1, 0], failed: [2, 0] });
  t.deepEqual(valuesOf({ model: 'c' }), { completed: [0, 0] });
});

test('a chart of filtered requests has only these, and there is none that reports cannot count', (t) => {
  const times = [Date.parse('2026-11-30T04:00:00Z') / 1_000];
  const steps = { unit: 'hour', times, stepSeconds: 3_600 } as const;
  const hour = '2026-11-30T04:00:00Z';
  const rows = [
    { hour, model: 'a', ...counts, errors: { SERVICE_UNAVAILABLE: 1, lost: 1 } },
    {
      hour,
      model: '-',
      ...counts,
      requests: 0,
      failed: 0,
      cancelled: 0,
      refused: 4,
      errors: { SERVICE_UNAVAILABLE: 4 },
    },
  ];
  const shown = (filter: Parameters<typeof seriesOf>[2]) =>
    seriesOf(steps, rows, filter).map(({ name, values }) => [name, ...values]);
  t.deepEqual(shown({ code: 'SERVICE_UNAVAILABLE' }), [['SERVICE_UNAVAILABLE', 1]]);
  t.deepEqual(shown({ outcome: 'lost' }), [['lost', 1]]);
  t.deepEqual(shown({ outcome: 'failed' }), [['failed', 1]]);
  t.deepEqual(shown({ outcome: 'completed' }), [['completed', 7]]);
  t.is(reportOf(steps, { code: 'SERVICE_UNAVAILABLE' }).get('group_by'), 'hour,model');
  t.true(isCounted({ code: 'SERVICE_UNAVAILABLE' }, steps));
  t.false(isCounted({ code: 'SERVICE_UNAVAILABLE' }, { unit: 'day' }));
  t.false(isCounted({ slower_than_ms: '1000' }, steps));
  t.false(isCounted({ batch_id: 'batch_1' }, steps));
});

test('refused requests are counted by their codes, apart from those that failed', (t) => {
  const data = [
    { model: '-', ...counts, requests: 0, refused: 61, errors: { quota_exceeded: 3, rate_limit_exceeded: 58 } },
    { model: 'a', ...counts, refused: 0, errors: { UPSTREAMS_EXHAUSTED: 9 } },
  ];
  t.deepEqual(refusalsOf({ data }), { refused: 61, words: '58 × rate_limit_exceeded, 3 × quota_exceeded' });
  t.deepEqual(refusalsOf({ data: [] }), { refused: 0, words: '' });
});
