import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { totalOf, usageCountsSchema } from '../usage/usage-counts.ts';
import { byDetail, countsOf } from '../usage/usage-details.ts';
import type { MonthBatch, UsageMonth, UsageSum } from '../usage/usage-sums.ts';
import type { KeptSum } from '../usage/usage-tables.ts';
import { createSqliteDetails } from './sqlite-usage-details.ts';

const sumRow = usageCountsSchema.extend({ lastEntry: z.string(), repairs: z.int() });
const guardRow = sumRow.pick({ lastEntry: true, repairs: true });

const selectSum = `SELECT last_entry AS lastEntry, repairs, requests, failed, cancelled, prompt_tokens AS promptTokens,
    completion_tokens AS completionTokens, charged_tokens AS chargedTokens, overage_tokens AS overageTokens
  FROM usage_sums WHERE account = :account AND month = :month`;

const selectGuard = `SELECT last_entry AS lastEntry, repairs FROM usage_sums WHERE account = :account AND month = :month`;

const insertSum = `INSERT INTO usage_sums (account, month, last_entry, repairs, requests, failed, cancelled,
    prompt_tokens, completion_tokens, charged_tokens, overage_tokens)
  VALUES (:account, :month, :lastEntry, 0, :requests, :failed, :cancelled,
    :promptTokens, :completionTokens, :chargedTokens, :overageTokens)
  ON CONFLICT (account, month) DO UPDATE SET last_entry = excluded.last_entry`;

const addToSum = `${insertSum},
    requests = requests + excluded.requests,
    failed = failed + excluded.failed,
    cancelled = cancelled + excluded.cancelled,
    prompt_tokens = prompt_tokens + excluded.prompt_tokens,
    completion_tokens = completion_tokens + excluded.completion_tokens,
    charged_tokens = charged_tokens + excluded.charged_tokens,
    overage_tokens = overage_tokens + excluded.overage_tokens`;

const repairSum = `${insertSum},
    repairs = repairs + 1,
    requests = excluded.requests,
    failed = excluded.failed,
    cancelled = excluded.cancelled,
    prompt_tokens = excluded.prompt_tokens,
    completion_tokens = excluded.completion_tokens,
    charged_tokens = excluded.charged_tokens,
    overage_tokens = excluded.overage_tokens`;

/** The usage of an account in a month, as one row, and its details. The caller runs writes in a transaction. */
export function createSqliteSums(database: DatabaseSync) {
  const details = createSqliteDetails(database);
  const [select, guardOf] = [database.prepare(selectSum), database.prepare(selectGuard)];
  const [move, repair] = [database.prepare(addToSum), database.prepare(repairSum)];

  function readGuard({ account, month }: UsageMonth): z.infer<typeof guardRow> | undefined {
    const row = guardOf.get({ account, month });
    return row === undefined ? undefined : guardRow.parse(row);
  }

  return {
    details,

    read({ account, month }: UsageMonth): KeptSum | undefined {
      const row = select.get({ account, month });
      if (row === undefined) return undefined;
      const { lastEntry, repairs, ...total } = sumRow.parse(row);
      return { sum: { account, month, lastEntry, total }, repairs };
    },

    /** Adds records that the sum and its details do not contain yet. Returns false if one of them was already past some records. */
    add({ account, month, unsummed, lastEntry }: MonthBatch): boolean {
      const reached = readGuard({ account, month })?.lastEntry ?? '';
      const rest = unsummed.filter(({ entry }) => entry > reached);
      if (rest.length === 0) return unsummed.length === 0;
      move.run({ account, month, lastEntry, ...totalOf([countsOf(rest)]) });
      const passed = byDetail({ account, month }, rest).filter((batch) => !details.add(batch));
      return rest.length === unsummed.length && passed.length === 0;
    },

    /** Returns false if the sum has changed since it was read. */
    replace({ account, month, lastEntry, total }: UsageSum, kept: KeptSum | undefined): boolean {
      const now = readGuard({ account, month });
      if (now?.lastEntry !== kept?.sum.lastEntry || now?.repairs !== kept?.repairs) return false;
      repair.run({ account, month, lastEntry, ...total });
      return true;
    },
  };
}
