/**
 * Entry n migrates a database of `user_version` n to n + 1. A released entry is never changed; a new one is added. Times in columns are
 * milliseconds since 1970, UTC. In documents, and in columns generated from them, they are ISO 8601 text.
 */
export const migrations: readonly string[] = [
  `CREATE TABLE accounts (
    id TEXT NOT NULL PRIMARY KEY,
    plan TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    key_id TEXT,
    key_hash TEXT,
    key_display TEXT,
    key_plan TEXT,
    key_created_at INTEGER,
    CHECK (
      (key_id IS NULL) = (key_hash IS NULL) AND (key_id IS NULL) = (key_display IS NULL)
      AND (key_id IS NULL) = (key_plan IS NULL) AND (key_id IS NULL) = (key_created_at IS NULL)
    )
  ) STRICT;
  CREATE UNIQUE INDEX accounts_by_key_hash ON accounts (key_hash);`,

  // An account is one document. Search columns are generated from it, so that the two cannot differ. A key's last use is stored separately,
  // so that recording one does not rewrite the account's history.
  `ALTER TABLE accounts RENAME TO accounts_of_version_1;
  CREATE TABLE accounts (
    id TEXT NOT NULL PRIMARY KEY,
    key_id TEXT AS (document ->> '$.key.id') STORED,
    key_hash TEXT AS (document ->> '$.key.hash') STORED,
    document TEXT NOT NULL CHECK (json_valid(document))
  ) STRICT;
  INSERT INTO accounts (id, document)
    SELECT id, iif(
      key_id IS NULL,
      account,
      json_set(account, '$.key', json_object(
        'id', key_id, 'hash', key_hash, 'display', key_display, 'plan', key_plan,
        'createdAt', strftime('%Y-%m-%dT%H:%M:%fZ', key_created_at / 1000.0, 'unixepoch')
      ))
    )
    FROM (
      SELECT *, json_object(
        'id', id, 'plan', plan, 'suspended', json('false'), 'version', version,
        'createdAt', strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000.0, 'unixepoch'),
        'endedKeys', json_array(), 'changes', json_array()
      ) AS account
      FROM accounts_of_version_1
    );
  DROP TABLE accounts_of_version_1;
  CREATE UNIQUE INDEX accounts_by_key_hash ON accounts (key_hash);
  CREATE TABLE key_uses (
    account TEXT NOT NULL PRIMARY KEY,
    key_id TEXT NOT NULL,
    used_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;`,

  // Usage records are also documents, and never change. Their sums are rows, so that one more record changes one row.
  `CREATE TABLE usage_records (
    request_id TEXT NOT NULL PRIMARY KEY,
    account TEXT NOT NULL AS (document ->> '$.account') STORED,
    month TEXT NOT NULL AS (document ->> '$.month') STORED,
    entry TEXT NOT NULL AS (document ->> '$.entry') STORED,
    document TEXT NOT NULL CHECK (json_valid(document))
  ) STRICT;
  CREATE INDEX usage_records_by_account ON usage_records (account, month, entry);
  CREATE INDEX usage_records_by_month ON usage_records (month);
  CREATE TABLE usage_sums (
    account TEXT NOT NULL,
    month TEXT NOT NULL,
    last_entry TEXT NOT NULL,
    repairs INTEGER NOT NULL,
    PRIMARY KEY (account, month)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX usage_sums_by_month ON usage_sums (month);
  CREATE TABLE usage_days (
    account TEXT NOT NULL,
    month TEXT NOT NULL,
    day TEXT NOT NULL,
    model TEXT NOT NULL,
    requests INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    charged_tokens INTEGER NOT NULL,
    overage_tokens INTEGER NOT NULL,
    PRIMARY KEY (account, month, day, model)
  ) STRICT, WITHOUT ROWID;`,

  // Files and batches are documents; time columns come from the documents. Closed batches are only searched by account, so the other
  // indexes hold only the open ones. Bodies of responses are not part of the documents, and are the last column: reads of the columns
  // before them do not depend on their size. Results are counted in an index only, which SQLite does not do with a generated column;
  // results never change, so their column need not be generated. Sizes of files are also summed in an index only, by the expressions from
  // which the columns are generated.
  `CREATE TABLE files (
    id TEXT NOT NULL PRIMARY KEY,
    account TEXT NOT NULL AS (document ->> '$.account') STORED,
    purpose TEXT NOT NULL AS (document ->> '$.purpose') STORED,
    state TEXT NOT NULL AS (document ->> '$.state') STORED,
    created_at TEXT NOT NULL AS (document ->> '$.createdAt') STORED,
    expires_at TEXT NOT NULL AS (document ->> '$.expiresAt') STORED,
    document TEXT NOT NULL CHECK (json_valid(document))
  ) STRICT;
  CREATE INDEX files_by_account ON files (account, id) WHERE state = 'ready';
  CREATE INDEX files_by_purpose ON files (account, purpose, id) WHERE state = 'ready';
  CREATE INDEX files_by_state ON files (state, expires_at, created_at);
  CREATE INDEX files_by_size ON files (document ->> '$.account', document ->> '$.state', document ->> '$.bytes');
  CREATE TABLE batches (
    id TEXT NOT NULL PRIMARY KEY,
    account TEXT NOT NULL AS (document ->> '$.account') STORED,
    state TEXT NOT NULL AS (document ->> '$.state') STORED,
    is_open INTEGER NOT NULL AS (document ->> '$.open') STORED,
    input_file TEXT NOT NULL AS (document ->> '$.inputFile') STORED,
    tokens INTEGER NOT NULL AS (document ->> '$.tokens') STORED,
    created_at TEXT NOT NULL AS (document ->> '$.createdAt') STORED,
    document TEXT NOT NULL CHECK (json_valid(document))
  ) STRICT;
  CREATE INDEX batches_by_account ON batches (account, id);
  CREATE INDEX open_batches ON batches (id) WHERE is_open;
  CREATE INDEX open_batches_by_account ON batches (account, state, tokens) WHERE is_open;
  CREATE INDEX open_batches_by_input ON batches (input_file, state) WHERE is_open;
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
];
