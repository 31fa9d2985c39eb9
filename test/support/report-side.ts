import { parse } from 'csv-parse/sync';
import type { GroupName } from '../../ingress/usage/usage-query.ts';
import type { Prices } from '../../shared/plan-file/plan-file.ts';
import type { UsageRecord } from '../../shared/store/usage/usage-record.ts';
import { countsOf, type UsageDetail, type UsageUnit } from '../../shared/store/usage/usage-tables.ts';

type Given = { pieceLength?: number; unit?: UsageUnit };

/** The details of these records, as a store returns them: by account, then by day or hour, in pieces. */
export async function* detailsOf(
  records: readonly UsageRecord[],
  { pieceLength = 7, unit = 'day' }: Given = {},
): AsyncGenerator<UsageDetail[]> {
  const groups = Map.groupBy(records, ({ account, admittedAt, model, keyId, endpoint, code, outcome }) =>
    JSON.stringify([
      ...[account, admittedAt.toISOString().slice(0, unit === 'day' ? 10 : 13), model, keyId, endpoint],
      unit === 'day' ? '' : (code ?? outcome),
    ]),
  );
  const details = [...groups]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([id, group]) => {
      const [account = '', start = '', model = '', keyId = '', endpoint = '', code = ''] = JSON.parse(id) as string[];
      const place = { account, month: start.slice(0, 7), unit, start, model, keyId, endpoint, code };
      return { ...place, counts: countsOf(group), lastEntry: '' };
    });
  for (let from = 0; from < details.length; from += pieceLength) yield details.slice(from, from + pieceLength);
}

/** A row of a report with all values as texts, as CSV has them. */
export type TextRow = Record<string, string>;

/** The rows of a report, computed record by record, without the code under test. */
export function expectedRows(
  records: readonly UsageRecord[],
  { unit = 'day', groups, prices, currency }: { unit?: UsageUnit; groups: readonly GroupName[] } & Prices,
): TextRow[] {
  const valuesOf = (record: UsageRecord) => {
    const { account, admittedAt, model, keyId, endpoint } = record;
    const time = admittedAt.toISOString();
    const [day, hour] = [time.slice(0, 10), `${time.slice(0, 13)}:00:00Z`];
    const all = { account, day, hour, model, key: keyId, endpoint };
    return groups.map((name) => [name, all[name]] as const);
  };
  const byValues = Map.groupBy(records, (record) => JSON.stringify(valuesOf(record)));
  return [...byValues.values()].map((group) => {
    const [first] = group;
    const sum = (value: (record: UsageRecord) => number) => String(group.reduce((total, one) => total + value(one), 0));
    return {
      ...Object.fromEntries(first === undefined ? [] : valuesOf(first)),
      requests: String(group.length),
      failed: sum(({ outcome }) => Number(outcome === 'failed' || outcome === 'lost')),
      cancelled: sum(({ outcome }) => Number(outcome === 'cancelled')),
      promptTokens: sum(({ promptTokens }) => promptTokens),
      cachedTokens: sum(({ cachedTokens }) => cachedTokens),
      completionTokens: sum(({ completionTokens }) => completionTokens),
      chargedTokens: sum(({ chargedTokens }) => chargedTokens),
      overageTokens: sum(({ overage, chargedTokens }) => (overage ? chargedTokens : 0)),
      ...(unit === 'hour' && expectedOfHours(group)),
      ...(prices && {
        cost: expectedCost(group, prices),
        currency,
        unpricedTokens: sum((record) =>
          priceAt(record, prices) === undefined ? record.promptTokens + record.completionTokens : 0,
        ),
      }),
    };
  });
}

function expectedOfHours(records: readonly UsageRecord[]): TextRow {
  const failed = records.filter(({ outcome }) => outcome === 'failed' || outcome === 'lost');
  const byCode = Map.groupBy(failed, ({ code, outcome }) => code ?? outcome);
  const counts = [...byCode].map(([code, group]) => [code, group.length] as const);
  const errors = Object.fromEntries(counts.sort(([one], [other]) => (one < other ? -1 : 1)));
  const times = records.flatMap(({ firstTokenMs }) => firstTokenMs ?? []);
  const [p50, p95] = [expectedPercentile(times, 0.5), expectedPercentile(times, 0.95)];
  return { refused: '0', errors: JSON.stringify(errors), firstTokenMsP50: p50, firstTokenMsP95: p95 };
}

const bounds = [0, 50, 100, 200, 300, 500, 750, 1_000, 1_500, 2_000, 3_000, 5_000, 10_000, 30_000];

/** Times within two bounds are evenly spread between them. Beyond the last one, they are the last one. */
function expectedPercentile(times: readonly number[], part: number): string {
  if (times.length === 0) return '';
  const rank = times.length * part;
  const lower = times.map((time) => bounds.findLast((bound) => bound < time) ?? 0).sort((one, other) => one - other);
  const from = lower[Math.ceil(rank) - 1] ?? 0;
  const to = bounds.find((bound) => bound > from) ?? from;
  const [before, within] = [lower.indexOf(from), lower.filter((each) => each === from).length];
  return String(Math.round(from + ((rank - before) / within) * (to - from)));
}

/** A row of a report as CSV has it. */
export function asTexts(
  row: { errors?: unknown; firstTokenMs?: { p50: number; p95: number } | null | undefined },
  { prices, currency }: Prices = { prices: undefined, currency: '' },
): TextRow {
  const { errors, firstTokenMs, ...rest } = row;
  const times = { firstTokenMsP50: firstTokenMs?.p50 ?? '', firstTokenMsP95: firstTokenMs?.p95 ?? '' };
  const all = { ...rest, ...(errors !== undefined && { errors: JSON.stringify(errors), ...times }) };
  const texts = Object.entries(all).map(([name, value]) => [name, value === null ? '' : String(value)]);
  return { ...Object.fromEntries(texts), ...(prices && { currency }) };
}

function priceAt({ model, admittedAt }: UsageRecord, prices: NonNullable<Prices['prices']>) {
  const known = (prices[model] ?? []).filter(({ from }) => Date.parse(from) <= admittedAt.getTime());
  return known.toSorted((one, other) => Date.parse(other.from) - Date.parse(one.from))[0];
}

/** By fractions of whole numbers: each price is a number over a power of ten. */
function expectedCost(records: readonly UsageRecord[], prices: NonNullable<Prices['prices']>): string {
  let [numerator, denominator] = [0n, 1n];
  const add = (tokens: number, text: string) => {
    const digits = text.split('.')[1]?.length ?? 0;
    const over = 10n ** BigInt(digits) * 1_000_000n;
    numerator = numerator * over + BigInt(tokens) * BigInt(text.replace('.', '')) * denominator;
    denominator *= over;
    const factor = greatestDivisor(numerator, denominator);
    [numerator, denominator] = [numerator / factor, denominator / factor];
  };
  for (const record of records) {
    const price = priceAt(record, prices);
    if (price === undefined) continue;
    add(record.promptTokens - record.cachedTokens, price.prompt);
    add(record.cachedTokens, price.cached ?? price.prompt);
    add(record.completionTokens, price.completion);
  }
  let text = String(numerator / denominator);
  for (let rest = numerator % denominator; rest > 0n; rest %= denominator) {
    if (!text.includes('.')) text += '.';
    rest *= 10n;
    text += String(rest / denominator);
  }
  return text;
}

function greatestDivisor(one: bigint, other: bigint): bigint {
  return other === 0n ? one || 1n : greatestDivisor(other, one % other);
}

/** Rows of CSV, by a library of its own. It throws if the text is not valid. */
export function readCsv(text: string): TextRow[] {
  return parse(text, { columns: true, record_delimiter: '\r\n' }) as TextRow[]; // with `columns`, texts by name
}

/** In one order, to compare rows as a set. */
export function sorted(rows: readonly TextRow[]): TextRow[] {
  const keyed = rows.map((row) => ({ row, key: JSON.stringify(Object.entries(row).sort()) }));
  return keyed.toSorted((one, other) => (one.key < other.key ? -1 : 1)).map(({ row }) => row);
}
