import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import {
  createTally,
  inOrder,
  type MonthBatch,
  totalOf,
  type UsageMonth,
  type UsageSum,
  usageCountsSchema,
} from '../usage/usage-sums.ts';
import type { KeptSum } from '../usage/usage-tables.ts';

const days = z.array(usageCountsSchema.extend({ day: z.string(), model: z.string() }));
const sumRow = z.object({
  lastEntry: z.string(),
  repairs: z.int(),
  days: z.string().transform((text) => days.parse(JSON.parse(text))),
});
const lastEntryRow = z.object({ lastEntry: z.string() });

// One statement, so that it reads one state of both tables.
const selectSum = `SELECT last_entry AS lastEntry, repairs, (
    SELECT json_group_array(json_object(
      'day', day, 'model', model, 'requests', requests, 'failed', failed, 'cancelled', cancelled,
      'promptTokens', prompt_tokens, 'completionTokens', completion_tokens,
      'chargedTokens', charged_tokens, 'overageTokens', overage_tokens
    ))
    FROM usage_days WHERE account = :account AND month = :month
  ) AS days
  FROM usage_sums WHERE account = :account AND month = :month`;

const selectLastEntry = 'SELECT last_entry AS lastEntry FROM usage_sums WHERE account = :account AND month = :month';

const moveSum = `INSERT INTO usage_sums (account, month, last_entry, repairs) VALUES (:account, :month, :lastEntry, 0)
  ON CONFLICT (account, month) DO UPDATE SET last_entry = excluded.last_entry`;

const repairSum = `INSERT INTO usage_sums (account, month, last_entry, repairs) VALUES (:account, :month, :lastEntry, 0)
  ON CONFLICT (account, month) DO UPDATE SET last_entry = excluded.last_entry, repairs = repairs + 1`;

const addDay = `INSERT INTO usage_days (account, month, day, model, requests, failed, cancelled,
    prompt_tokens, completion_tokens, charged_tokens, overage_tokens)
  VALUES (:account, :month, :day, :model, :requests, :failed, :cancelled,
    :promptTokens, :completionTokens, :chargedTokens, :overageTokens)
  ON CONFLICT (account, month, day, model) DO UPDATE SET
    requests = requests + excluded.requests,
    failed = failed + excluded.failed,
    cancelled = cancelled + excluded.cancelled,
    prompt_tokens = prompt_tokens + excluded.prompt_tokens,
    completion_tokens = completion_tokens + excluded.completion_tokens,
    charged_tokens = charged_tokens + excluded.charged_tokens,
    overage_tokens = overage_tokens + excluded.overage_tokens`;

const removeDays = 'DELETE FROM usage_days WHERE account = :account AND month = :month';

const oldSums = '(SELECT account, month FROM usage_sums WHERE month < :month ORDER BY account, month LIMIT :limit)';
const removeOldDays = `DELETE FROM usage_days WHERE (account, month) IN ${oldSums}`;
const removeOldSums = `DELETE FROM usage_sums WHERE (account, month) IN ${oldSums}`;

/** The usage of an account in a month, as rows; a total is the sum of its days. The caller runs writes in a transaction. */
export function createSqliteSums(database: DatabaseSync) {
  const select = database.prepare(selectSum);
  const lastEntryOf = database.prepare(selectLastEntry);
  const [move, repair] = [database.prepare(moveSum), database.prepare(repairSum)];
  const [add, clear] = [database.prepare(addDay), database.prepare(removeDays)];
  const [forgetDays, forgetSums] = [database.prepare(removeOldDays), database.prepare(removeOldSums)];

  function read({ account, month }: UsageMonth): KeptSum | undefined {
    const row = select.get({ account, month });
    if (row === undefined) return undefined;
    const { lastEntry, repairs, days: found } = sumRow.parse(row);
    return { sum: { account, month, lastEntry, total: totalOf(found), days: inOrder(found) }, repairs };
  }

  return {
    read,

    /** Adds records that the sum does not contain yet; returns true if the sum was already past some of them. */
    add({ account, month, unsummed, lastEntry }: MonthBatch): boolean {
      const row = lastEntryOf.get({ account, month });
      const reached = row === undefined ? '' : lastEntryRow.parse(row).lastEntry;
      const rest = unsummed.filter(({ entry }) => entry > reached);
      if (rest.length > 0) {
        const tally = createTally();
        tally.add(rest);
        for (const day of tally.days()) add.run({ account, month, ...day });
        move.run({ account, month, lastEntry });
      }
      return rest.length < unsummed.length;
    },

    /** Returns false if the sum has changed since it was read. */
    replace(sum: UsageSum, kept: KeptSum | undefined): boolean {
      const { account, month, lastEntry } = sum;
      const now = read(sum);
      if (now?.sum.lastEntry !== kept?.sum.lastEntry || now?.repairs !== kept?.repairs) return false;
      clear.run({ account, month });
      for (const day of sum.days) add.run({ account, month, ...day });
      repair.run({ account, month, lastEntry });
      return true;
    },

    removeBefore(month: string, limit: number): number {
      forgetDays.run({ month, limit });
      return Number(forgetSums.run({ month, limit }).changes);
    },
  };
}
