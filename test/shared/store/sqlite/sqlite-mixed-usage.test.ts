import { DatabaseSync } from 'node:sqlite';
import test from 'ava';
import { createSqliteHome } from '../sqlite-home.ts';
import { testMixedUsageContract } from '../usage-mixed-contract.ts';

type Detail = { id: string; requests: number; cachedTokens: number };

const selectDetails = `SELECT json_array(account, month, day, model, key_id, endpoint) AS id, requests,
  cached_tokens AS cachedTokens FROM usage_details`;

testMixedUsageContract({
  test: test.serial,
  async createHome() {
    const home = await createSqliteHome();
    return {
      ...home,
      async readDetails() {
        using database = new DatabaseSync(home.file, { timeout: 1_000 });
        const rows = database.prepare(selectDetails).all() as Detail[]; // the columns of the statement
        return Object.fromEntries(rows.map(({ id, ...counts }) => [id, { ...counts }]));
      },
      largestSum: async () => undefined,
    };
  },
});
