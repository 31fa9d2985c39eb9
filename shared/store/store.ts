/**
 * What the service keeps for good: accounts with their developer key. Two homes stand behind this one interface,
 * MongoDB and SQLite, and both pass the same contract suite.
 *
 * Every method fails with `ApiError` `SERVICE_UNAVAILABLE`, within seconds, when the store cannot be reached or stays
 * busy, and once it is closed: an outage is never reported as "not found". A change that failed so may have been made
 * all the same. Each change is one atomic update of one document.
 */
export interface Store extends AsyncDisposable {
  /** Product, version and topology, for the log and the test report: `sqlite 3.50.4`, `mongodb 8.0.4 (replica set rs0)`. */
  describe(): Promise<string>;

  /** One round trip, to measure whether the store answers. */
  ping(): Promise<void>;

  /**
   * Gives the account its developer key. The account comes into being here, on `plan`, if it is not yet known. An
   * account that has an active key keeps it: `minted` is false and `account.key` is the old one. Concurrent mints for
   * one account: exactly one is `minted`. Increments `version` when it mints, and only then. A new key takes the plan
   * that the account stands on. Fails with `INTERNAL_ERROR` when the hash is that of another account's active key.
   */
  mintDeveloperKey(mint: {
    account: string;
    plan: string;
    key: NewKey;
  }): Promise<{ minted: boolean; account: Account }>;

  /** The account, or undefined when it has never been used. */
  findAccount(account: string): Promise<{ plan: string; version: number } | undefined>;

  /** The account that the active key with this hash belongs to; undefined when no active key has it. */
  findKeyOwner(hash: string): Promise<KeyOwner | undefined>;
}

/** `hash` is what is compared, `display` the first ten characters; the full key is never given to the store. */
export type NewKey = { id: string; hash: string; display: string; createdAt: Date };

export type DeveloperKey = { id: string; display: string; plan: string; createdAt: Date };

/** `id` is `user:<sub>`; `plan` is a name in the plan file; `version` counts the changes that callers must feel. */
export type Account = { id: string; plan: string; version: number; key: DeveloperKey };

/** `plan` is the account's now, not the one the key was minted under (specification 5.4, API C13). */
export type KeyOwner = { account: string; keyId: string; plan: string; version: number };
