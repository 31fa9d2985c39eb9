import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { type UsageCounts, usageCountsSchema } from '../usage/usage-counts.ts';
import { byDetail, countsOf, createDayTally, type UsageDay } from '../usage/usage-details.ts';
import type { MonthBatch, UsageMonth, UsageSum } from '../usage/usage-sums.ts';
import {
  type Detailed,
  type IncompletePage,
  isDetailed,
  type KeptSum,
  type UsageTables,
} from '../usage/usage-tables.ts';
import { createSqliteDetails } from './sqlite-usage-details.ts';

const dayRow = usageCountsSchema.extend({ day: z.string(), model: z.string() });
const sumRow = usageCountsSchema.extend({ lastEntry: z.string(), repairs: z.int() });
const stateRow = z.object({
  lastEntry: z.string(),
  repairs: z.int(),
  detailedTo: z.string(),
  detailedRepairs: z.int(),
});
const markRow = stateRow.extend({ account: z.string(), month: z.string() });
const guardRow = z.object({ lastEntry: z.string(), repairs: z.int() });

// One statement, so that it reads one state of both tables.
const selectSum = `SELECT usage_sums.last_entry AS lastEntry, usage_sums.repairs,
    coalesce(sum(requests), 0) AS requests, coalesce(sum(failed), 0) AS failed, coalesce(sum(cancelled), 0) AS cancelled,
    coalesce(sum(prompt_tokens), 0) AS promptTokens, coalesce(sum(completion_tokens), 0) AS completionTokens,
    coalesce(sum(charged_tokens), 0) AS chargedTokens, coalesce(sum(overage_tokens), 0) AS overageTokens
  FROM usage_sums LEFT JOIN usage_days USING (account, month)
  WHERE usage_sums.account = :account AND usage_sums.month = :month GROUP BY usage_sums.account`;

const selectDays = `SELECT day, model, requests, failed, cancelled, prompt_tokens AS promptTokens,
    completion_tokens AS completionTokens, charged_tokens AS chargedTokens, overage_tokens AS overageTokens
  FROM usage_days WHERE account = :account AND month = :month`;

const selectMarks = `SELECT account, month, s.last_entry AS lastEntry, s.repairs,
    coalesce(m.last_entry, '') AS detailedTo, coalesce(m.repairs, 0) AS detailedRepairs
  FROM usage_sums AS s LEFT JOIN usage_detail_marks AS m USING (account, month)
  WHERE (month, account) < (:month, :account) ORDER BY month DESC, account DESC LIMIT :limit`;

/** Also of a month that has no sum. */
const selectState = `SELECT coalesce(s.last_entry, '') AS lastEntry, coalesce(s.repairs, 0) AS repairs,
    coalesce(m.last_entry, '') AS detailedTo, coalesce(m.repairs, 0) AS detailedRepairs
  FROM (SELECT 1) LEFT JOIN usage_sums AS s ON s.account = :account AND s.month = :month
    LEFT JOIN usage_detail_marks AS m ON m.account = :account AND m.month = :month`;

const selectGuard = `SELECT last_entry AS lastEntry, repairs FROM usage_sums WHERE account = :account AND month = :month`;

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

const daysFromDetails = `INSERT INTO usage_days (account, month, day, model, requests, failed, cancelled,
    prompt_tokens, completion_tokens, charged_tokens, overage_tokens)
  SELECT account, month, day, model, sum(requests), sum(failed), sum(cancelled), sum(prompt_tokens),
    sum(completion_tokens), sum(charged_tokens), sum(overage_tokens)
  FROM usage_details WHERE account = :account AND month = :month AND requests > 0 GROUP BY day, model`;

/**
 * The usage of an account in a month, as rows. Its total is the sum of its days and models: those are what a release without details reads and
 * writes, so that both count the same. The caller runs writes in a transaction.
 */
export function createSqliteSums(database: DatabaseSync) {
  const details = createSqliteDetails(database);
  const [select, selectAllDays] = [database.prepare(selectSum), database.prepare(selectDays)];
  const [guardOf, stateOf] = [database.prepare(selectGuard), database.prepare(selectState)];
  const [move, repair] = [database.prepare(moveSum), database.prepare(repairSum)];
  const [add, clear] = [database.prepare(addDay), database.prepare(removeDays)];
  const addFromDetails = database.prepare(daysFromDetails);

  function readGuard({ account, month }: UsageMonth): Detailed | undefined {
    const row = guardOf.get({ account, month });
    return row === undefined ? undefined : guardRow.parse(row);
  }

  return {
    details,

    read({ account, month }: UsageMonth): KeptSum | undefined {
      const row = select.get({ account, month });
      if (row === undefined) return undefined;
      const { lastEntry, repairs, ...total } = sumRow.parse(row);
      const sum = { account, month, lastEntry, total: total satisfies UsageCounts };
      return { sum, repairs, detailed: details.readMark({ account, month }) };
    },

    readDays: ({ account, month }: UsageMonth): UsageDay[] =>
      selectAllDays.all({ account, month }).map((row) => dayRow.parse(row)),

    /** Adds records that the sum does not contain yet. `passed`: the sum was already past some of them. */
    add({ account, month, unsummed, lastEntry }: MonthBatch): { passed: boolean; incomplete: boolean } {
      const { lastEntry: reached, repairs, ...mark } = stateRow.parse(stateOf.get({ account, month }));
      const detailed = { lastEntry: mark.detailedTo, repairs: mark.detailedRepairs };
      const isComplete = isDetailed({ sum: { lastEntry: reached }, repairs, detailed });
      const rest = unsummed.filter(({ entry }) => entry > reached);
      const passed = rest.length < unsummed.length;
      if (rest.length === 0) return { passed, incomplete: !isComplete };
      const batches = byDetail({ account, month }, rest);
      const tally = createDayTally();
      tally.add(batches.map((batch) => ({ ...batch, counts: countsOf(batch.unsummed) })));
      for (const day of tally.days()) add.run({ account, month, ...day });
      move.run({ account, month, lastEntry });
      if (!isComplete) return { passed, incomplete: true };
      const passedDetails = batches.filter((batch) => !details.add(batch));
      details.note({ account, month }, { lastEntry, repairs });
      return { passed: passed || passedDetails.length > 0, incomplete: false };
    },

    /** Returns false if the sum has changed since it was read. */
    replace({ account, month, lastEntry }: UsageSum, kept: KeptSum | undefined): boolean {
      const now = readGuard({ account, month });
      if (now?.lastEntry !== kept?.sum.lastEntry || now?.repairs !== kept?.repairs) return false;
      clear.run({ account, month });
      addFromDetails.run({ account, month });
      repair.run({ account, month, lastEntry });
      details.note({ account, month }, { lastEntry, repairs: kept === undefined ? 0 : kept.repairs + 1 });
      return true;
    },

    /** Does nothing if the sum was repaired in the meantime. */
    noteDetailed(month: UsageMonth, detailed: Detailed): void {
      if (readGuard(month)?.repairs !== detailed.repairs) return;
      const now = details.readMark(month);
      if (now.repairs !== detailed.repairs || now.lastEntry < detailed.lastEntry) details.note(month, detailed);
    },
  };
}

/** After every `YYYY-MM`. */
const afterAll = '~';

type IncompleteQuery = Parameters<UsageTables['listIncomplete']>[0];

/** Reads sums with their marks, and returns those that the details are behind. */
export function createListIncomplete(database: DatabaseSync): (query: IncompleteQuery) => IncompletePage {
  const marks = database.prepare(selectMarks);
  return function listIncomplete({ after = { account: '', month: afterAll }, limit }) {
    const rows = marks.all({ account: after.account, month: after.month, limit });
    const found = rows.map((row) => markRow.parse(row));
    const incomplete = found.filter(({ lastEntry, repairs, detailedTo, detailedRepairs }) => {
      const detailed = { lastEntry: detailedTo, repairs: detailedRepairs };
      return !isDetailed({ sum: { lastEntry }, repairs, detailed });
    });
    const last = found.length < limit ? undefined : found.at(-1);
    return { incomplete: incomplete.map(placeOf), ...(last !== undefined && { last: placeOf(last) }) };
  };
}

function placeOf({ account, month }: UsageMonth): UsageMonth {
  return { account, month };
}
