import { DatabaseSync } from 'node:sqlite';
import { createSqliteHome } from '../../shared/store/sqlite-home.ts';
import type { StoreHome } from '../../shared/store/store-contract.ts';
import { createMongoHome } from '../../support/mongodb/mongo-home.ts';
import type { MongoServer, NoMongo } from '../../support/mongodb/start-mongo.ts';

export type Spoilt = 'too high' | 'too low' | 'missing' | 'on another day';

/** A home in which a test can falsify the sums of one account at a time. */
export type ReconcileHome = StoreHome & { spoil(account: string, how: Spoilt): Promise<void> };

export const wrongBy = 7;
const anotherDay = '2001-01-01';

const statements: Record<Spoilt, string[]> = {
  'too high': [`UPDATE usage_sums SET charged_tokens = charged_tokens + ${wrongBy} WHERE account = ?`],
  'too low': [`UPDATE usage_sums SET charged_tokens = charged_tokens - ${wrongBy} WHERE account = ?`],
  missing: ['sums', 'days', 'hours'].map((name) => `DELETE FROM usage_${name} WHERE account = ?`),
  'on another day': [`UPDATE usage_days SET start = '${anotherDay}' WHERE account = ?`],
};

export async function createSqliteReconcileHome(): Promise<ReconcileHome> {
  const home = await createSqliteHome();
  return {
    ...home,
    async spoil(account, how) {
      using database = new DatabaseSync(home.file);
      for (const statement of statements[how]) database.prepare(statement).run(account);
    },
  };
}

export async function createMongoReconcileHome(mongo: MongoServer | NoMongo): Promise<ReconcileHome> {
  const home = await createMongoHome(mongo);
  const sums = home.database.collection('usage_sums');
  const [days, hours] = [home.database.collection('usage_days'), home.database.collection('usage_hours')];

  async function moveDays(account: string): Promise<void> {
    for (const { _id, ...detail } of await days.find({ account }).toArray()) {
      await days.deleteOne({ _id });
      const { month, model, keyId, endpoint } = detail;
      const moved = JSON.stringify([account, month, anotherDay, model, keyId, endpoint, '']);
      await days.insertOne({ ...detail, _id: moved as never, start: anotherDay }); // the driver's type has an ObjectId
    }
  }

  return {
    ...home,
    async spoil(account, how) {
      if (how === 'missing') for (const collection of [sums, days, hours]) await collection.deleteMany({ account });
      else if (how === 'on another day') await moveDays(account);
      else
        await sums.updateMany(
          { account },
          { $inc: { 'total.chargedTokens': how === 'too high' ? wrongBy : -wrongBy } },
        );
    },
  };
}
