/** The number of this schema, which the file has as its `user_version` (contract.md#s2-stored-data). */
export const schemaNumber = 1;

/**
 * The tables and indexes of a store. Times in columns are milliseconds since 1970, UTC. In documents, and in columns generated from them,
 * they are ISO 8601 text.
 */
export const schema: readonly string[] = [
  // An account is one document. Rows of its live keys find it. They also have the keys' last uses, so that recording one does not rewrite
  // the account's history. Operators look for the account of a key by its id and by its first characters. These
  // rows have numbers, so that the indexes need not repeat an account's name.
  `CREATE TABLE accounts (
    id TEXT NOT NULL PRIMARY KEY,
    document TEXT NOT NULL CHECK (json_valid(document))
  ) STRICT;
  CREATE INDEX removed_accounts ON accounts (id) WHERE document ->> '$.removal.isDone' = 0;
  CREATE TABLE keys (
    account TEXT NOT NULL,
    key_id TEXT NOT NULL,
    hash TEXT NOT NULL,
    display TEXT NOT NULL,
    used_at INTEGER,
    PRIMARY KEY (account, key_id)
  ) STRICT;
  CREATE UNIQUE INDEX keys_by_hash ON keys (hash);
  CREATE INDEX keys_by_id ON keys (key_id);
  CREATE INDEX keys_by_display ON keys (display);`,

  // Display names, once for each text by which they are found.
  `CREATE TABLE account_names (
    account TEXT NOT NULL,
    start TEXT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (account, start)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX account_names_by_start ON account_names (start);`,

  `CREATE TABLE audit_records (
    id TEXT NOT NULL PRIMARY KEY,
    account TEXT NOT NULL AS (document ->> '$.account') STORED,
    actor TEXT NOT NULL AS (document ->> '$.actor') STORED,
    document TEXT NOT NULL CHECK (json_valid(document))
  ) STRICT;
  CREATE INDEX audit_records_by_account ON audit_records (account, id);
  CREATE INDEX audit_records_by_actor ON audit_records (actor, id);`,

  `CREATE TABLE top_up_codes (
    id TEXT NOT NULL PRIMARY KEY,
    hash TEXT NOT NULL AS (document ->> '$.hash') STORED,
    state TEXT NOT NULL AS (document ->> '$.state') STORED,
    expires_at TEXT AS (document ->> '$.expiresAt') STORED,
    document TEXT NOT NULL CHECK (json_valid(document))
  ) STRICT;
  CREATE UNIQUE INDEX top_up_codes_by_hash ON top_up_codes (hash);
  CREATE INDEX top_up_codes_by_state ON top_up_codes (state, id);`,

  // Usage records are also documents, and never change. They are found by admission, and by the id of the answer, which not every record
  // has. Their sums and details are rows, so that one more record changes few small rows (contract.md#r11-details).
  `CREATE TABLE usage_records (
    request_id TEXT NOT NULL PRIMARY KEY,
    account TEXT NOT NULL AS (document ->> '$.account') STORED,
    month TEXT NOT NULL AS (document ->> '$.month') STORED,
    entry TEXT NOT NULL AS (document ->> '$.entry') STORED,
    document TEXT NOT NULL CHECK (json_valid(document))
  ) STRICT;
  CREATE INDEX usage_records_by_account ON usage_records (account, month, entry);
  CREATE INDEX usage_records_by_month ON usage_records (month);
  CREATE INDEX usage_records_by_admission ON usage_records (account, document ->> '$.admittedAt', request_id);
  CREATE INDEX usage_records_by_answer ON usage_records (account, document ->> '$.answerId', document ->> '$.admittedAt')
    WHERE document ->> '$.answerId' IS NOT NULL;
  CREATE TABLE usage_sums (
    account TEXT NOT NULL,
    month TEXT NOT NULL,
    last_entry TEXT NOT NULL,
    repairs INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    charged_tokens INTEGER NOT NULL,
    overage_tokens INTEGER NOT NULL,
    PRIMARY KEY (account, month)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX usage_sums_by_month ON usage_sums (month);
  CREATE TABLE usage_details (
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
  CREATE INDEX usage_details_by_month ON usage_details (month);`,

  // Files and batches are documents; time columns come from the documents. Closed batches are only searched by account, so the other
  // indexes hold only the open ones. Bodies of responses are not part of the documents, and are the last column: reads of the columns
  // before them do not depend on their size. Results are counted in an index only, which SQLite does not do with a generated column;
  // results never change, so their column need not be generated. Sizes of files are also summed in an index only, by the expressions from
  // which the columns are generated. A batch's claim and the mark that the event of its end waits are not part of its document: changes of
  // the batch do not change them.
  `CREATE TABLE files (
    id TEXT NOT NULL PRIMARY KEY,
    account TEXT NOT NULL AS (document ->> '$.account') STORED,
    key_id TEXT AS (document ->> '$.keyId') STORED,
    purpose TEXT NOT NULL AS (document ->> '$.purpose') STORED,
    state TEXT NOT NULL AS (document ->> '$.state') STORED,
    created_at TEXT NOT NULL AS (document ->> '$.createdAt') STORED,
    expires_at TEXT NOT NULL AS (document ->> '$.expiresAt') STORED,
    document TEXT NOT NULL CHECK (json_valid(document))
  ) STRICT;
  CREATE INDEX files_by_account ON files (account, id) WHERE state = 'ready';
  CREATE INDEX files_by_purpose ON files (account, purpose, id) WHERE state = 'ready';
  CREATE INDEX files_by_key ON files (account, key_id, purpose, state, id);
  CREATE INDEX files_by_state ON files (state, expires_at, created_at);
  CREATE INDEX files_by_size ON files (document ->> '$.account', document ->> '$.state', document ->> '$.bytes');
  CREATE TABLE batches (
    id TEXT NOT NULL PRIMARY KEY,
    account TEXT NOT NULL AS (document ->> '$.account') STORED,
    key_id TEXT NOT NULL AS (document ->> '$.keyId') STORED,
    state TEXT NOT NULL AS (document ->> '$.state') STORED,
    is_open INTEGER NOT NULL AS (document ->> '$.open') STORED,
    input_file TEXT NOT NULL AS (document ->> '$.inputFile') STORED,
    tokens INTEGER NOT NULL AS (document ->> '$.tokens') STORED,
    created_at TEXT NOT NULL AS (document ->> '$.createdAt') STORED,
    claim TEXT,
    event_waits INTEGER NOT NULL DEFAULT FALSE,
    document TEXT NOT NULL CHECK (json_valid(document))
  ) STRICT;
  CREATE UNIQUE INDEX batches_by_claim ON batches (claim);
  CREATE INDEX batches_with_event ON batches (id) WHERE event_waits;
  CREATE INDEX batches_by_account ON batches (account, id);
  CREATE INDEX batches_by_key ON batches (account, key_id, id);
  CREATE INDEX open_batches ON batches (id) WHERE is_open;
  CREATE INDEX open_batches_by_account ON batches (account, id) WHERE is_open;
  CREATE INDEX open_batches_by_input ON batches (input_file, state) WHERE is_open;
  CREATE TABLE batch_rooms (
    account TEXT NOT NULL PRIMARY KEY,
    document TEXT NOT NULL CHECK (json_valid(document))
  ) STRICT;
  CREATE TABLE batch_results (
    batch TEXT NOT NULL,
    line INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    document TEXT NOT NULL CHECK (json_valid(document)),
    body TEXT,
    PRIMARY KEY (batch, line)
  ) STRICT;
  CREATE INDEX batch_results_by_outcome ON batch_results (batch, failed);
  CREATE TABLE batch_retries (
    batch TEXT NOT NULL,
    line INTEGER NOT NULL,
    document TEXT NOT NULL CHECK (json_valid(document)),
    PRIMARY KEY (batch, line)
  ) STRICT, WITHOUT ROWID;`,

  // The endpoints of an account are one document. Columns to search by are generated from documents.
  `CREATE TABLE webhooks (
    id TEXT NOT NULL PRIMARY KEY,
    document TEXT NOT NULL CHECK (json_valid(document))
  ) STRICT;
  CREATE TABLE webhook_deliveries (
    id TEXT NOT NULL PRIMARY KEY,
    endpoint TEXT NOT NULL AS (document ->> '$.endpoint') STORED,
    state TEXT NOT NULL AS (document ->> '$.state') STORED,
    created_at TEXT NOT NULL AS (document ->> '$.createdAt') STORED,
    next_at TEXT AS (document ->> '$.nextAt') STORED,
    document TEXT NOT NULL CHECK (json_valid(document))
  ) STRICT;
  CREATE INDEX webhook_deliveries_by_time ON webhook_deliveries (endpoint, created_at, id);
  CREATE INDEX webhook_deliveries_by_state ON webhook_deliveries (endpoint, state, created_at, id);
  CREATE INDEX webhook_deliveries_waiting ON webhook_deliveries (endpoint, next_at) WHERE next_at IS NOT NULL;
  CREATE INDEX webhook_deliveries_by_age ON webhook_deliveries (created_at);
  CREATE TABLE webhook_schedules (
    id TEXT NOT NULL PRIMARY KEY,
    due_at TEXT AS (document ->> '$.dueAt') STORED,
    document TEXT NOT NULL CHECK (json_valid(document))
  ) STRICT;
  CREATE INDEX webhook_schedules_due ON webhook_schedules (due_at, id) WHERE due_at IS NOT NULL;`,
];
