/**
 * Tables and indexes that an earlier release does not know and does not damage. They do not change `user_version`, so that it can still
 * open the database. An entry is never changed (contract.md#s3-stored-data).
 */
export const additions: readonly string[] = [
  `CREATE TABLE IF NOT EXISTS audit_records (
    id TEXT NOT NULL PRIMARY KEY,
    account TEXT NOT NULL AS (document ->> '$.account') STORED,
    actor TEXT NOT NULL AS (document ->> '$.actor') STORED,
    document TEXT NOT NULL CHECK (json_valid(document))
  ) STRICT;
  CREATE INDEX IF NOT EXISTS audit_records_by_account ON audit_records (account, id);
  CREATE INDEX IF NOT EXISTS audit_records_by_actor ON audit_records (actor, id);`,

  // Accounts with a change that has no audit record: they are few, and workers find them without reading all accounts.
  `CREATE INDEX IF NOT EXISTS accounts_behind_audit ON accounts (id)
    WHERE document ->> '$.version' > coalesce(document ->> '$.recorded', 0);`,

  // A release without details keeps its own sums by day (usage_days), and does not write the other two tables. A mark says up to where the details
  // of a month are complete (contract.md#r11-details).
  `CREATE TABLE IF NOT EXISTS usage_details (
    account TEXT NOT NULL,
    month TEXT NOT NULL,
    day TEXT NOT NULL,
    model TEXT NOT NULL,
    key_id TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    last_entry TEXT NOT NULL,
    repairs INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    charged_tokens INTEGER NOT NULL,
    overage_tokens INTEGER NOT NULL,
    PRIMARY KEY (account, month, day, model, key_id, endpoint)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS usage_details_by_month ON usage_details (month);
  CREATE TABLE IF NOT EXISTS usage_detail_marks (
    account TEXT NOT NULL,
    month TEXT NOT NULL,
    last_entry TEXT NOT NULL,
    repairs INTEGER NOT NULL,
    PRIMARY KEY (account, month)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS usage_detail_marks_by_month ON usage_detail_marks (month);`,

  // Keys beside the account's default key. A release without them replaces the document of an account, so they are not part of it. A key that
  // has ended has no hash.
  `CREATE TABLE IF NOT EXISTS further_keys (
    account TEXT NOT NULL,
    key_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    hash TEXT,
    used_at INTEGER,
    document TEXT NOT NULL CHECK (json_valid(document)),
    PRIMARY KEY (account, key_id)
  ) STRICT, WITHOUT ROWID;
  CREATE UNIQUE INDEX IF NOT EXISTS further_keys_by_hash ON further_keys (hash);`,

  // The requests of an account by admission, and by the id of the answer, which not every record has. Each takes two to four seconds for a
  // million records.
  `CREATE INDEX IF NOT EXISTS usage_records_by_admission
    ON usage_records (account, document ->> '$.admittedAt', request_id);`,
  `CREATE INDEX IF NOT EXISTS usage_records_by_answer
    ON usage_records (account, document ->> '$.answerId', document ->> '$.admittedAt')
    WHERE document ->> '$.answerId' IS NOT NULL;`,

  // Not part of a batch's document, which a process of an earlier release replaces as it knows it.
  `CREATE TABLE IF NOT EXISTS batch_claims (
    claim TEXT NOT NULL PRIMARY KEY,
    batch TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;`,

  `CREATE TABLE IF NOT EXISTS top_up_codes (
    id TEXT NOT NULL PRIMARY KEY,
    hash TEXT NOT NULL AS (document ->> '$.hash') STORED,
    state TEXT NOT NULL AS (document ->> '$.state') STORED,
    expires_at TEXT AS (document ->> '$.expiresAt') STORED,
    document TEXT NOT NULL CHECK (json_valid(document))
  ) STRICT;
  CREATE UNIQUE INDEX IF NOT EXISTS top_up_codes_by_hash ON top_up_codes (hash);
  CREATE INDEX IF NOT EXISTS top_up_codes_by_state ON top_up_codes (state, id);`,
  // Batches that have ended, and whose event is not delivered to webhook endpoints yet. Not part of their documents either.
  `CREATE TABLE IF NOT EXISTS ended_batches (
    batch TEXT NOT NULL PRIMARY KEY
  ) STRICT, WITHOUT ROWID;`,

  // The endpoints of an account are one document. Columns to search by are generated from documents.
  `CREATE TABLE IF NOT EXISTS webhooks (
    id TEXT NOT NULL PRIMARY KEY,
    document TEXT NOT NULL CHECK (json_valid(document))
  ) STRICT;
  CREATE TABLE IF NOT EXISTS webhook_deliveries (
    id TEXT NOT NULL PRIMARY KEY,
    endpoint TEXT NOT NULL AS (document ->> '$.endpoint') STORED,
    state TEXT NOT NULL AS (document ->> '$.state') STORED,
    created_at TEXT NOT NULL AS (document ->> '$.createdAt') STORED,
    next_at TEXT AS (document ->> '$.nextAt') STORED,
    document TEXT NOT NULL CHECK (json_valid(document))
  ) STRICT;
  CREATE INDEX IF NOT EXISTS webhook_deliveries_by_time ON webhook_deliveries (endpoint, created_at, id);
  CREATE INDEX IF NOT EXISTS webhook_deliveries_by_state ON webhook_deliveries (endpoint, state, created_at, id);
  CREATE INDEX IF NOT EXISTS webhook_deliveries_waiting ON webhook_deliveries (endpoint, next_at)
    WHERE next_at IS NOT NULL;
  CREATE INDEX IF NOT EXISTS webhook_deliveries_by_age ON webhook_deliveries (created_at);
  CREATE TABLE IF NOT EXISTS webhook_schedules (
    id TEXT NOT NULL PRIMARY KEY,
    due_at TEXT AS (document ->> '$.dueAt') STORED,
    document TEXT NOT NULL CHECK (json_valid(document))
  ) STRICT;
  CREATE INDEX IF NOT EXISTS webhook_schedules_due ON webhook_schedules (due_at, id) WHERE due_at IS NOT NULL;`,

  // Keys by their ids and by their first characters, for operators who look for the account of a key.
  `CREATE INDEX IF NOT EXISTS accounts_by_key ON accounts (key_id);
  CREATE INDEX IF NOT EXISTS accounts_by_key_display ON accounts (document ->> '$.key.display');
  CREATE INDEX IF NOT EXISTS further_keys_by_id ON further_keys (key_id) WHERE hash IS NOT NULL;
  CREATE INDEX IF NOT EXISTS further_keys_by_display ON further_keys (document ->> '$.display')
    WHERE hash IS NOT NULL;`,
];
