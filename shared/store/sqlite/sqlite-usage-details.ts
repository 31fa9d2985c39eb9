import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { detailCountsSchema } from '../usage/usage-counts.ts';
import { countsOf, type DetailBatch, type UsageDetail } from '../usage/usage-details.ts';
import type { UsageMonth } from '../usage/usage-sums.ts';
import type { DetailChange, DetailPage, KeptDetail, UsageTables } from '../usage/usage-tables.ts';

const detailRow = z
  .object({
    account: z.string(),
    month: z.string(),
    day: z.string(),
    model: z.string(),
    keyId: z.string(),
    endpoint: z.string(),
    lastEntry: z.string(),
    repairs: z.int(),
    ...detailCountsSchema.shape,
  })
  .transform(({ repairs, account, month, day, model, keyId, endpoint, lastEntry, ...counts }): KeptDetail => {
    return { detail: { account, month, day, model, keyId, endpoint, lastEntry, counts }, repairs };
  });
const guardRow = z.object({ lastEntry: z.string(), repairs: z.int() });

const columns = `account, month, day, model, key_id, endpoint, last_entry, repairs,
  requests, failed, cancelled, prompt_tokens, completion_tokens, cached_tokens, charged_tokens, overage_tokens`;

const selectDetails = `SELECT account, month, day, model, key_id AS keyId, endpoint,
    last_entry AS lastEntry, repairs, requests, failed, cancelled, prompt_tokens AS promptTokens,
    completion_tokens AS completionTokens, cached_tokens AS cachedTokens, charged_tokens AS chargedTokens,
    overage_tokens AS overageTokens
  FROM usage_details`;

const selectPage = (start: string) => `${selectDetails}
  WHERE account = :account AND month = :month AND ${start} AND (:ofKey IS NULL OR key_id = :ofKey)
  ORDER BY day, model, key_id, endpoint LIMIT :limit`;

const selectOfMonth = `${selectDetails}
  WHERE month = :month AND (account, day, model, key_id, endpoint) > (:account, :day, :model, :keyId, :endpoint)
  ORDER BY account, day, model, key_id, endpoint LIMIT :limit`;

const insertDetail = `INSERT INTO usage_details (${columns})
  VALUES (:account, :month, :day, :model, :keyId, :endpoint, :lastEntry, 0,
    :requests, :failed, :cancelled, :promptTokens, :completionTokens, :cachedTokens, :chargedTokens, :overageTokens)
  ON CONFLICT (account, month, day, model, key_id, endpoint) DO UPDATE SET last_entry = excluded.last_entry`;

const addDetail = `${insertDetail},
    requests = requests + excluded.requests,
    failed = failed + excluded.failed,
    cancelled = cancelled + excluded.cancelled,
    prompt_tokens = prompt_tokens + excluded.prompt_tokens,
    completion_tokens = completion_tokens + excluded.completion_tokens,
    cached_tokens = cached_tokens + excluded.cached_tokens,
    charged_tokens = charged_tokens + excluded.charged_tokens,
    overage_tokens = overage_tokens + excluded.overage_tokens
  WHERE usage_details.last_entry < :firstEntry`;

const repairDetail = `${insertDetail},
    repairs = repairs + 1,
    requests = excluded.requests,
    failed = excluded.failed,
    cancelled = excluded.cancelled,
    prompt_tokens = excluded.prompt_tokens,
    completion_tokens = excluded.completion_tokens,
    cached_tokens = excluded.cached_tokens,
    charged_tokens = excluded.charged_tokens,
    overage_tokens = excluded.overage_tokens`;

const selectGuard = `SELECT last_entry AS lastEntry, repairs FROM usage_details
  WHERE account = :account AND month = :month AND day = :day AND model = :model AND key_id = :keyId
    AND endpoint = :endpoint`;

/** Details as rows. The caller runs writes in a transaction. */
export function createSqliteDetails(database: DatabaseSync) {
  const after = database.prepare(selectPage('(day, model, key_id, endpoint) > (:day, :model, :keyId, :endpoint)'));
  const [fromDay, ofMonth] = [database.prepare(selectPage('day >= :day')), database.prepare(selectOfMonth)];
  const [insert, repair] = [database.prepare(addDetail), database.prepare(repairDetail)];
  const guardOf = database.prepare(selectGuard);

  /** Adds records that the detail does not contain yet; returns false if it was already past some of them. */
  function add(batch: DetailBatch): boolean {
    const { account, month, day, model, keyId, endpoint, unsummed, lastEntry } = batch;
    const place = { account, month, day, model, keyId, endpoint };
    const insertRest = (rest: DetailBatch['unsummed']) =>
      insert.run({ ...place, lastEntry, firstEntry: rest[0]?.entry ?? '', ...countsOf(rest) }).changes === 1;
    if (insertRest(unsummed)) return true;
    const { lastEntry: reached } = guardRow.parse(guardOf.get(place));
    const rest = unsummed.filter(({ entry }) => entry > reached);
    if (rest.length > 0) insertRest(rest);
    return false;
  }

  /** Returns false if the detail has changed since it was read. */
  function replace({ detail, kept }: DetailChange): boolean {
    const { counts, lastEntry, account, month, day, model, keyId, endpoint } = detail;
    const row = guardOf.get({ account, month, day, model, keyId, endpoint });
    const now = row === undefined ? undefined : guardRow.parse(row);
    if (now?.lastEntry !== kept?.detail.lastEntry || now?.repairs !== kept?.repairs) return false;
    repair.run({ account, month, day, model, keyId, endpoint, lastEntry, ...counts });
    return true;
  }

  return {
    add,
    replace,

    read({ account, month }: UsageMonth, { limit, keyId: wanted, ...page }: DetailPage): KeptDetail[] {
      const bounds = { account, month, ofKey: wanted ?? null, limit };
      if ('fromDay' in page) return fromDay.all({ ...bounds, day: page.fromDay }).map((row) => detailRow.parse(row));
      const { day, model, keyId, endpoint } = page.after;
      return after.all({ ...bounds, day, model, keyId, endpoint }).map((row) => detailRow.parse(row));
    },

    readMonth(month: string, { after: last, limit }: MonthPage): UsageDetail[] {
      const { account, day, model, keyId, endpoint } = last ?? beforeAll;
      const rows = ofMonth.all({ month, account, day, model, keyId, endpoint, limit });
      return rows.map((row) => detailRow.parse(row).detail);
    },
  };
}

type MonthPage = Parameters<UsageTables['readMonthDetails']>[1];

const beforeAll = { account: '', day: '', model: '', keyId: '', endpoint: '' };
