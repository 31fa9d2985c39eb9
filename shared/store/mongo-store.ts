import { type Collection, MongoClient, MongoServerError, type TopologyDescription } from 'mongodb';
import { z } from 'zod';
import { ApiError } from '../errors.ts';
import { within } from '../shutdown.ts';
import type { Account, KeyOwner, Store } from './store.ts';
import { keyHashTaken, storeUnavailable } from './store-errors.ts';

type Mint = Parameters<Store['mintDeveloperKey']>[0];
type Log = { warn(fields: object, message: string): void };

/**
 * What one call may take in all, whatever the driver still waits for. Each of the driver's own limits is below it, and
 * every one is set: left out, it means 30 s or for ever, and a silent network is noticed by none of the others.
 */
const callMsMax = 5_000;
const clientOptions = {
  serverSelectionTimeoutMS: 2_000,
  connectTimeoutMS: 2_000,
  socketTimeoutMS: 4_000,
  waitQueueTimeoutMS: 2_000,
  maxPoolSize: 20,
  writeConcern: { w: 'majority', wtimeoutMS: 3_000 },
  readPreference: 'primary',
  // Not 'majority', which may not yet show the very key that a mint has just lost to.
  readConcern: { level: 'local' },
} as const;

const duplicateKey = 11_000;
const mintAttemptsMax = 3;

const accountSchema = z.object({
  _id: z.string(),
  plan: z.string(),
  version: z.int(),
  createdAt: z.date(),
  key: z
    .object({ id: z.string(), hash: z.string(), display: z.string(), plan: z.string(), createdAt: z.date() })
    .optional(),
});

const standingSchema = accountSchema.pick({ plan: true, version: true });
const ownerSchema = z.object({
  _id: z.string(),
  plan: z.string(),
  version: z.int(),
  key: z.object({ id: z.string() }),
});

const buildInfoSchema = z.object({ version: z.string() });

type AccountStanding = z.infer<typeof standingSchema>;
type AccountDocument = z.infer<typeof accountSchema>;

/**
 * The store in a MongoDB database. Connects at the first call, so the process starts without the server and finds it
 * when it comes. A call that failed with `SERVICE_UNAVAILABLE` may have been carried out.
 */
export class MongoStore implements Store {
  readonly #client: MongoClient;
  readonly #accounts: Collection<AccountDocument>;
  #prepared: Promise<void> | undefined;
  #topology = 'unknown topology';
  #closed = false;

  /** Throws where the address cannot be understood or names no database. */
  constructor(url: string, { log }: { log: Log }) {
    // The driver would take one named "test".
    if (!/^[^/]+\/\/[^/?]+\/[^?]/.test(url))
      throw new Error('DATABASE_URL must name a database: mongodb://<host>/<database>.');
    this.#client = new MongoClient(url, clientOptions);
    this.#accounts = this.#client.db().collection('accounts');
    let warned = false;
    this.#client.on('topologyDescriptionChanged', ({ newDescription }) => {
      this.#topology = topologyName(newDescription) ?? this.#topology;
      if (warned || this.#topology !== 'standalone') return;
      warned = true;
      log.warn(
        {},
        'MongoDB is a standalone server: one disk, and no write is retried. Run a replica set in production',
      );
    });
  }

  async describe(): Promise<string> {
    const answer: unknown = await this.#call(() => this.#client.db('admin').command({ buildInfo: 1 }));
    return `mongodb ${buildInfoSchema.parse(answer).version} (${this.#topology})`;
  }

  async ping(): Promise<void> {
    await this.#call(() => this.#client.db().command({ ping: 1 }));
  }

  async mintDeveloperKey(mint: Mint): Promise<{ minted: boolean; account: Account }> {
    return this.#call((signal) => this.#mint(mint, signal));
  }

  async findAccount(account: string): Promise<AccountStanding | undefined> {
    const projection = { plan: 1, version: 1 };
    const found: unknown = await this.#call(() => this.#accounts.findOne({ _id: account }, { projection }));
    if (found === null) return undefined;
    const { plan, version } = standingSchema.parse(found);
    return { plan, version };
  }

  async findKeyOwner(hash: string): Promise<KeyOwner | undefined> {
    const projection = { plan: 1, version: 1, 'key.id': 1 };
    const found: unknown = await this.#call(() => this.#accounts.findOne({ 'key.hash': hash }, { projection }));
    if (found === null) return undefined;
    const { _id: account, plan, version, key } = ownerSchema.parse(found);
    return { account, keyId: key.id, plan, version };
  }

  /** Gives up waiting for calls that are still under way after as long as a call may take. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await within(callMsMax, this.#close());
  }

  /**
   * One guarded update decides. Where it met a document that does not fit the guard, the document says why: the account
   * has a key, or stands on another plan, which the key then takes (API C13). Where neither is so, the key's hash is taken.
   */
  async #mint(mint: Mint, signal: AbortSignal): Promise<{ minted: boolean; account: Account }> {
    let plan = mint.plan;
    let duplicate: unknown;
    for (let attempt = 1; attempt <= mintAttemptsMax; attempt += 1) {
      signal.throwIfAborted(); // the caller was told that it failed: no key may come into being any more
      const outcome = await this.#putKey({ ...mint, plan });
      if ('account' in outcome) return { minted: true, account: outcome.account };
      duplicate = outcome.duplicate;
      const found: unknown = await this.#accounts.findOne({ _id: mint.account });
      const known = found === null ? undefined : accountSchema.parse(found);
      if (known?.key !== undefined) return { minted: false, account: toAccount(known) };
      plan = known?.plan ?? mint.plan;
    }
    throw keyHashTaken(duplicate);
  }

  /** Puts the key into the account if that stands on this plan without one, or is not known yet. */
  async #putKey({ account, plan, key }: Mint): Promise<{ account: Account } | { duplicate: unknown }> {
    const { id, hash, display, createdAt } = key;
    try {
      const document: unknown = await this.#accounts.findOneAndUpdate(
        { _id: account, plan, key: { $exists: false } },
        { $set: { key: { id, hash, display, plan, createdAt } }, $inc: { version: 1 }, $setOnInsert: { createdAt } },
        { upsert: true, returnDocument: 'after' },
      );
      return { account: toAccount(accountSchema.parse(document)) };
    } catch (error) {
      if (error instanceof MongoServerError && error.code === duplicateKey) return { duplicate: error };
      throw error;
    }
  }

  /** `work` once the indexes stand, and one failure for whatever the driver, the network or the name service throws. */
  async #call<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const late = new AbortController();
    const deadline = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      late.abort();
      deadline.reject(new Error(`MongoDB did not answer within ${callMsMax} ms`));
    }, callMsMax);
    const answer = async () => {
      if (this.#closed) throw new Error('the store is closed');
      await this.#prepare();
      late.signal.throwIfAborted();
      return work(late.signal);
    };
    try {
      return await Promise.race([answer(), deadline.promise]);
    } catch (error) {
      throw error instanceof ApiError || error instanceof z.ZodError ? error : storeUnavailable(error);
    } finally {
      clearTimeout(timer);
    }
  }

  /** At the first call and until it has worked once; callers meanwhile share one attempt. */
  #prepare(): Promise<void> {
    this.#prepared ??= this.#connect().catch((error) => {
      this.#prepared = undefined;
      throw error;
    });
    return this.#prepared;
  }

  async #connect(): Promise<void> {
    // The driver connects by itself too, but a client whose first attempt failed would then stay closed for ever.
    await this.#client.connect();
    // Sparse: accounts without a key do not count as having the same one.
    await this.#accounts.createIndex({ 'key.hash': 1 }, { unique: true, sparse: true });
  }

  /** The second time closes what an attempt to connect may have opened after the first. */
  async #close(): Promise<void> {
    await this.#client.close();
    await this.#prepared?.catch(() => {});
    await this.#client.close();
  }
}

function toAccount({ _id: id, plan, version, key }: AccountDocument): Account {
  if (key === undefined) throw new Error('an account has a key once it was minted');
  return { id, plan, version, key: { id: key.id, display: key.display, plan: key.plan, createdAt: key.createdAt } };
}

function topologyName({ servers }: TopologyDescription): string | undefined {
  for (const { type, setName } of servers.values()) {
    if (type === 'Standalone') return 'standalone';
    if (type === 'Mongos') return 'sharded cluster';
    if (setName) return `replica set ${setName}`;
  }
  return undefined;
}
