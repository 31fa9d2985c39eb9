import { z } from 'zod';
import { ApiError } from '../../shared/errors.ts';
import {
  auditedChangeSchema,
  type Change,
  isGone,
  monthOf,
  type Account as StoredAccount,
} from '../../shared/store/records/account.ts';
import type { ListedAccount } from '../../shared/store/records/account-store.ts';
import { type AuditRecord, auditKinds, recordsOf } from '../../shared/store/records/audit-records.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { limitParameter } from '../api/lists.ts';
import { count, displayName, nameFieldOf, time } from '../api/response-fields.ts';
import { named, type Route, route } from '../api/route.ts';
import { keysOf } from '../authentication/change-keys.ts';
import type { RequestLookUp } from '../requests/find-requests.ts';
import { operatorBatchSchema, presentOperatorBatch } from './present-batch.ts';
import { presentShownKey, shownKey } from './present-key.ts';

const accountsQuery = z.strictObject({
  prefix: z
    .string()
    .max(300)
    .optional()
    .meta({ description: 'The beginning of the ids: `user:al`, `device:ab12`.', examples: ['user:al'] }),
  limit: limitParameter({ max: 100, usual: 20 }),
  after: z
    .string()
    .max(300)
    .optional()
    .meta({ description: 'The account before the first one to return: the last of the previous page.' }),
});

const shownRecordsMax = 200;
/** Keys can change often, and would hide the other changes. */
const kindsBesideKeys = auditKinds.filter((kind) => kind !== 'key');

const shownBatchesMax = 20;

export const accountParameter = {
  description: '`user:<sub>`, or `device:<SHA-256 of its id>`.',
  example: 'user:alice',
};

export type KnownAccountParts = {
  store: Pick<Store, 'accounts' | 'batches'>;
  queue: { requestLookUp: Pick<RequestLookUp, 'list'> };
};

const topUp = z.strictObject({ id: z.string(), tokens: z.int().positive() });

const step = z.strictObject({ from: z.string(), to: z.string() });

/** What was changed, of an account. */
export const changeOfAccount = z.strictObject({
  plan: step.optional(),
  suspended: z.boolean().optional(),
  overageEnabled: z.boolean().optional(),
  overageTokensMax: z.int().positive().nullable().optional(),
  topUp: topUp.optional(),
  codeRedeemed: z
    .strictObject({ id: z.string(), note: z.string().nullable() })
    .optional()
    .meta({ description: 'The top-up code that `topUp` is of.' }),
  keyMinted: z.string().optional().meta({ description: 'A key that was created.' }),
  keyRotated: step.optional().meta({ description: 'A key, and the one that replaces it.' }),
  keyChanged: z.string().optional().meta({ description: 'A key whose settings were changed.' }),
  keyRevoked: z.string().optional().meta({ description: 'A key that was revoked.' }),
  batchCancelled: z.string().optional().meta({ description: 'A batch that an operator has cancelled.' }),
  requestEnded: z.string().optional().meta({ description: 'A request that an operator has ended.' }),
  backendPaused: z
    .strictObject({ backend: z.string(), minutes: z.int() })
    .optional()
    .meta({ description: 'A backend that this operator has paused.' }),
  backendResumed: z.string().optional().meta({ description: 'A backend whose pause this operator has ended.' }),
  accountRemoved: z.literal(true).optional().meta({ description: 'An operator has removed the account.' }),
});

const accountChange = z.strictObject({
  at: time,
  by: z.string(),
  ...changeOfAccount.shape,
});

/** After a change: without batches, which it does not affect. */
export const changedAccountSchema = named(
  'ChangedAccount',
  z.strictObject({
    account: z.string(),
    plan: z.string(),
    overageEnabled: z.boolean(),
    topUp: count,
    suspended: z.boolean(),
    createdAt: time,
    keys: z
      .array(shownKey)
      .meta({ description: 'The default key, then further keys, then those that have ended, latest first.' }),
    changes: z.array(accountChange),
  }),
);

export const accountSchema = named(
  'Account',
  changedAccountSchema.extend({ name: displayName, batches: z.array(operatorBatchSchema) }),
);

export type Account = z.infer<typeof accountSchema>;

export type ChangedAccount = z.infer<typeof changedAccountSchema>;

const accountSummary = z.strictObject({
  account: z.string(),
  name: displayName,
  plan: z.string(),
  overageEnabled: z.boolean(),
  suspended: z.boolean(),
  createdAt: time,
});

export const accountListSchema = named(
  'AccountList',
  z.strictObject({
    object: z.literal('list'),
    data: z.array(accountSummary),
    has_more: z.boolean(),
  }),
);

export type AccountSummary = z.infer<typeof accountSummary>;

const exampleSummary = {
  account: 'user:alice',
  plan: 'pro',
  overageEnabled: false,
  suspended: false,
  createdAt: '2026-03-01T09:00:00.000Z',
};

export const exampleAccount = {
  ...exampleSummary,
  topUp: 0,
  keys: [],
  changes: [{ at: '2026-03-02T10:30:00.000Z', by: 'user:olga', plan: { from: 'free', to: 'pro' } }],
};

export const accountRoutes: readonly Route[] = [
  /** Accounts and devices, in the order of the UTF-8 bytes of their ids. */
  route({
    id: 'listAccounts',
    method: 'GET',
    path: '/admin/accounts',
    access: 'operator',
    tag: 'Operators',
    summary: 'List accounts and devices',
    description: 'Ordered by id. Includes accounts that have ever had a key or a change.',
    query: accountsQuery,
    answers: {
      description: 'A page of accounts.',
      schema: accountListSchema,
      example: { object: 'list', data: [exampleSummary], has_more: false },
    },
    async handle({ query: { limit, ...query } }, { store }) {
      const found = await store.accounts.listAccounts({ ...query, limit: limit + 1 });
      const names = await store.accounts.findNames(found.map(({ id }) => id));
      const data = found
        .slice(0, limit)
        .map((account) => ({ ...summarise(account), ...nameFieldOf(names, account.id) }));
      return { object: 'list' as const, data, has_more: found.length > limit };
    },
  }),
  /**
   * An account or device as operators may see it, with its latest batches and changes. These are the last
   * 200 changes of every kind, then earlier changes of its settings. At least the last 200 changes of settings are shown.
   */
  route({
    id: 'retrieveAccount',
    method: 'GET',
    path: '/admin/accounts/:account',
    access: 'operator',
    tag: 'Operators',
    summary: 'Retrieve an account or device',
    description:
      'With its keys, masked, its last 20 batches and its last 200 changes. Earlier changes of its settings follow, so that at least the last 200 of these are included; the audit trail has all of them.',
    answers: { description: 'The account.', schema: accountSchema, example: { ...exampleAccount, batches: [] } },
    refusals: ['NOT_FOUND'],
    params: { account: accountParameter },
    async handle(request, { store }) {
      const { at } = request;
      const { account: id } = request.params;
      // Read before the account, so that the changes of the account are at least as new.
      const records = await store.audit.listAudit({ account: id, kind: kindsBesideKeys, limit: shownRecordsMax });
      const account = await findPresent(store, id);
      const shown = presentAccount(account, at, records);
      const batches = await store.batches.listBatches(id, { limit: shownBatchesMax, order: 'desc' });
      const names = await store.accounts.findNames([id]);
      return {
        ...shown,
        ...nameFieldOf(names, id),
        batches: batches.map((batch) => presentOperatorBatch(batch, request)),
      };
    },
  }),
];

function summarise({ id, plan, overageEnabled, suspended, createdAt }: ListedAccount): AccountSummary {
  return { account: id, plan, overageEnabled, suspended, createdAt: createdAt.toISOString() };
}

/**
 * Converts an account to the format of the API. `topUp` is the tokens that were added to the allowance of the month of `now`. The changes
 * of the account are followed by those of `records` that it no longer has. `NOT_FOUND` if there is no account.
 */
export function presentAccount(
  account: StoredAccount | undefined,
  now: Date,
  records: readonly AuditRecord[] = [],
): ChangedAccount {
  if (account === undefined) throw noSuchAccount();
  const { id, plan, overageEnabled, suspended, createdAt } = account;
  const topUp = account.topUp?.month === monthOf(now) ? account.topUp.tokens : 0;
  const changes = [...account.changes.map(withoutOrigin), ...earlierChanges(account, records)];
  return {
    account: id,
    plan,
    overageEnabled,
    topUp,
    suspended,
    createdAt: createdAt.toISOString(),
    keys: keysOf(account).map((key) => presentShownKey(key, now)),
    changes: changes.map(({ at, ...change }) => ({ at: at.toISOString(), ...change })),
  };
}

function earlierChanges(account: StoredAccount, records: readonly AuditRecord[]): Change[] {
  const shown = new Set(recordsOf(account).map(({ id }) => id));
  return records
    .filter(({ id }) => !shown.has(id))
    .map(({ at, actor, change }) => ({ at, by: actor ?? account.id, ...auditedChangeSchema.parse(change) }));
}

function withoutOrigin({ origin: _, ...change }: Change): Change {
  return change;
}

/** An account that is gone (`isGone`) is like one that was never used. */
export async function findPresent(store: Pick<Store, 'accounts'>, id: string): Promise<StoredAccount | undefined> {
  const account = await store.accounts.findAccount(id);
  return account === undefined || isGone(account) ? undefined : account;
}

export function noSuchAccount(): ApiError {
  return new ApiError('NOT_FOUND', 'There is no such account.');
}

/**
 * `NOT_FOUND` for an account that has neither a document, nor a request, nor a batch. One that has used only sign-in tokens has no
 * document.
 */
export async function requireKnown(
  account: string,
  { store, queue: { requestLookUp } }: KnownAccountParts,
): Promise<void> {
  if ((await store.accounts.findAccount(account)) !== undefined) return;
  if ((await requestLookUp.list(account, { limit: 1, filter: {} })).last !== undefined) return;
  if ((await store.batches.listBatches(account, { limit: 1, order: 'desc' })).length === 0) throw noSuchAccount();
}
