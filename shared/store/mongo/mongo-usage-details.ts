import { compareBytes } from '../adapters/compare-bytes.ts';
import { detailId } from '../usage/usage-details.ts';
import type { DetailChange, UsageTables } from '../usage/usage-tables.ts';
import type { MongoCalls } from './database/mongo-calls.ts';
import { refusedAsDuplicates } from './database/mongo-duplicates.ts';
import { detailChangeOf, detailRange, detailsOf, readDetailDocument } from './mongo-detail-documents.ts';

const changesAtOnce = 500;

type DetailTables = Pick<UsageTables, 'readDetails' | 'readMonthDetails' | 'compareAccounts' | 'replaceDetails'>;

export function createMongoDetails({ call, durable, database }: MongoCalls): DetailTables {
  const details = detailsOf(database);

  async function write(changes: readonly DetailChange[]): Promise<boolean> {
    let matched = 0;
    const refused = await refusedAsDuplicates(
      details.bulkWrite(changes.map(detailChangeOf), { ordered: false }).then((result) => {
        matched = result.matchedCount + result.insertedCount;
      }),
    );
    return refused.length === 0 && matched === changes.length;
  }

  return {
    readDetails: (month, { limit, keyId, ...page }) =>
      call(async () => {
        const range = detailRange(month, 'fromDay' in page ? page.fromDay : '');
        const _id = 'after' in page ? { $gt: detailId(page.after), $lt: range.$lt } : range;
        const options = { sort: { _id: 1 }, limit, ...durable() } as const;
        const found = await details
          .find({ account: month.account, _id, ...(keyId !== undefined && { keyId }) }, options)
          .toArray();
        return found.map(readDetailDocument);
      }),

    readMonthDetails: (month, { after, limit }) =>
      call(async () => {
        const filter = { month, ...(after !== undefined && { _id: { $gt: detailId(after) } }) };
        const options = { sort: { _id: 1 }, limit, ...durable() } as const;
        const found = await details.find(filter, options).toArray();
        return found.map((document) => readDetailDocument(document).detail);
      }),

    // Ids of details are JSON and begin with the account.
    compareAccounts: (one, other) => compareBytes(JSON.stringify(one), JSON.stringify(other)),

    async replaceDetails(_month, changes) {
      for (let from = 0; from < changes.length; from += changesAtOnce) {
        const piece = changes.slice(from, from + changesAtOnce);
        if (!(await call(() => write(piece)))) return false;
      }
      return true;
    },
  };
}
