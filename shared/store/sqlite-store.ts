import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { z } from 'zod';
import { inTransaction, openSqlite } from './open-sqlite.ts';
import { patiently, sqliteErrorCode } from './sqlite-patience.ts';
import type { Account, KeyOwner, Store } from './store.ts';
import { keyHashTaken, storeUnavailable } from './store-errors.ts';

type Mint = Parameters<Store['mintDeveloperKey']>[0];

const SQLITE_CONSTRAINT_UNIQUE = 2067; // sqlite.org/rescode.html

const accountRow = z.object({
  id: z.string(),
  plan: z.string(),
  version: z.int(),
  keyId: z.string().nullable(),
  keyDisplay: z.string().nullable(),
  keyPlan: z.string().nullable(),
  keyCreatedAt: z.int().nullable(),
});

const ownerRow = z.object({ account: z.string(), keyId: z.string(), plan: z.string(), version: z.int() });
const versionRow = z.object({ version: z.string() });

const selectAccount = `SELECT id, plan, version, key_id AS keyId, key_display AS keyDisplay, key_plan AS keyPlan,
  key_created_at AS keyCreatedAt FROM accounts WHERE id = ?`;

const selectOwner = 'SELECT id AS account, key_id AS keyId, plan, version FROM accounts WHERE key_hash = ?';

const putKey = `INSERT INTO accounts (id, plan, version, created_at, key_id, key_hash, key_display, key_plan, key_created_at)
  VALUES (:account, :plan, 1, :createdAt, :keyId, :hash, :display, :plan, :createdAt)
  ON CONFLICT (id) DO UPDATE SET version = version + 1, key_id = excluded.key_id, key_hash = excluded.key_hash,
    key_display = excluded.key_display, key_plan = plan, key_created_at = excluded.key_created_at`;

/** The store in one SQLite file, for one machine; any number of its processes can have it open. */
export class SqliteStore implements Store {
  readonly #database: DatabaseSync;
  readonly #selectAccount: StatementSync;
  readonly #selectOwner: StatementSync;
  readonly #putKey: StatementSync;
  readonly #readFile: StatementSync;

  /** Creates the file and its folder where missing; throws an error for the operator when it cannot be used. */
  static async open(file: string): Promise<SqliteStore> {
    return new SqliteStore(await openSqlite(file));
  }

  private constructor(database: DatabaseSync) {
    this.#database = database;
    this.#selectAccount = database.prepare(selectAccount);
    this.#selectOwner = database.prepare(selectOwner);
    this.#putKey = database.prepare(putKey);
    this.#readFile = database.prepare('PRAGMA user_version'); // unlike SELECT 1, it looks at the file
  }

  async describe(): Promise<string> {
    const row = await this.#call(() => this.#database.prepare('SELECT sqlite_version() AS version').get());
    return `sqlite ${versionRow.parse(row).version}`;
  }

  async ping(): Promise<void> {
    await this.#call(() => this.#readFile.get());
  }

  async mintDeveloperKey(mint: Mint): Promise<{ minted: boolean; account: Account }> {
    return this.#call(() => inTransaction(this.#database, () => this.#mint(mint)));
  }

  async findAccount(account: string): Promise<{ plan: string; version: number } | undefined> {
    const row = await this.#call(() => this.#selectAccount.get(account));
    if (row === undefined) return undefined;
    const { plan, version } = accountRow.parse(row);
    return { plan, version };
  }

  async findKeyOwner(hash: string): Promise<KeyOwner | undefined> {
    const row = await this.#call(() => this.#selectOwner.get(hash));
    return row === undefined ? undefined : ownerRow.parse(row);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#database.isOpen) this.#database.close();
  }

  #mint({ account, plan, key }: Mint): { minted: boolean; account: Account } {
    const known = this.#readAccount(account);
    if (known !== undefined) return { minted: false, account: known };
    const { id: keyId, hash, display } = key;
    this.#putKey.run({ account, plan, keyId, hash, display, createdAt: key.createdAt.getTime() });
    const minted = this.#readAccount(account);
    if (minted === undefined) throw new Error('an account has a key once it was minted');
    return { minted: true, account: minted };
  }

  /** Undefined for an account that is not known or has no active key. */
  #readAccount(id: string): Account | undefined {
    const row = this.#selectAccount.get(id);
    if (row === undefined) return undefined;
    const { keyId, keyDisplay, keyPlan, keyCreatedAt, ...account } = accountRow.parse(row);
    if (keyId === null || keyDisplay === null || keyPlan === null || keyCreatedAt === null) return undefined;
    return { ...account, key: { id: keyId, display: keyDisplay, plan: keyPlan, createdAt: new Date(keyCreatedAt) } };
  }

  /** Closed meanwhile, also while it waits for a lock: the same failure as any other loss of the store. */
  async #call<T>(work: () => T): Promise<T> {
    try {
      return await patiently(() => {
        if (!this.#database.isOpen) throw storeUnavailable(new Error('the store is closed'));
        return work();
      });
    } catch (error) {
      const code = sqliteErrorCode(error);
      if (code === SQLITE_CONSTRAINT_UNIQUE) throw keyHashTaken(error);
      throw code === undefined ? error : storeUnavailable(error);
    }
  }
}
