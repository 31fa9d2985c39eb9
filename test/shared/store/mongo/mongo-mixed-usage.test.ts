import test from 'ava';
import { BSON } from 'mongodb';
import { openMongoTests } from '../../../support/mongodb/mongo-tests.ts';
import { testMixedUsageContract } from '../usage-mixed-contract.ts';

const { mongoTestAlone, createHome } = await openMongoTests(test);

type Detail = { _id: string; counts: { requests: number; cachedTokens: number } };

testMixedUsageContract({
  test: mongoTestAlone,
  async createHome() {
    const home = await createHome();
    return {
      ...home,
      async readDetails() {
        const all = await home.database.collection<Detail>('usage_details').find().toArray();
        const counts = all.map(({ _id, counts: { requests, cachedTokens } }) => [_id, { requests, cachedTokens }]);
        return Object.fromEntries(counts);
      },
      async largestSum() {
        const all = await home.database.collection('usage_sums').find().toArray();
        return Math.max(...all.map((document) => BSON.calculateObjectSize(document)));
      },
    };
  },
});
