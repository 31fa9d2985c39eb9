import { z } from 'zod';
import { defaultKeyOf } from '../../shared/store/records/key.ts';
import { time } from '../api/response-fields.ts';
import { named, type Route, type RouteRequest, route } from '../api/route.ts';
import { displayPart, isMaskedKey, isWellFormedKey, maskKey, newKey } from '../authentication/api-key.ts';
import { invalidKey, keyCredential } from '../authentication/authorization.ts';
import { mintKey, type NamedKey, revokeKey, rotateKey } from '../authentication/change-keys.ts';
import { presentDeveloperKeys } from './present-key.ts';

export const emptyObject = named('EmptyObject', z.strictObject({}));

const namedKeyBody = named(
  'NamedKey',
  z.strictObject({
    key: z.string().meta({ description: 'The active key, in full or masked.' }),
  }),
);

const ownAccountSchema = named(
  'OwnAccount',
  z.strictObject({
    object: z.literal('account'),
    account: z.string(),
    plan: z.string(),
    operator: z.boolean().meta({ description: 'Whether this sign-in token may use the routes of operators.' }),
  }),
);

export type OwnAccount = z.infer<typeof ownAccountSchema>;

export const mintedKeySchema = named(
  'MintedKey',
  z.strictObject({
    key: z.string().meta({ description: 'In full only when it is minted; masked later.' }),
    plan: z.string(),
  }),
);

const rotatedKeySchema = named('RotatedKey', mintedKeySchema.extend({ rotated: z.literal(true) }));

const revokedKeySchema = named('RevokedKey', mintedKeySchema.extend({ revoked: z.literal(true) }));

const developerKeySchema = named(
  'DeveloperKey',
  z.strictObject({
    id: z.string(),
    key: z.string().meta({ description: 'Masked.' }),
    plan: z.string(),
    state: z.enum(['active', 'rotated', 'revoked']),
    createdAt: time,
    endedAt: time.optional(),
    lastUsedAt: time.optional(),
  }),
);

export const developerKeyListSchema = named(
  'DeveloperKeyList',
  z.strictObject({ object: z.literal('list'), data: z.array(developerKeySchema) }),
);

export type MintedKey = z.infer<typeof mintedKeySchema>;

const fullKey = 'svc_…';

const maskedKey = 'svc_Ab3xYz****';

export const developerKeyRoutes: readonly Route[] = [
  /** The account that signed in, and whether it is an operator. Only the service knows how its tokens are read. */
  route({
    id: 'retrieveOwnAccount',
    method: 'GET',
    path: '/v1/account',
    access: 'signIn',
    tag: 'Keys',
    summary: 'Retrieve the account that signed in',
    description: 'Its name, its plan, and whether the token is one of an operator.',
    answers: {
      description: 'The account.',
      schema: ownAccountSchema,
      example: { object: 'account', account: 'user:alice', plan: 'free', operator: false },
    },
    async handle({ caller, isOperator }) {
      const { account, plan } = caller;
      return { object: 'account' as const, account, plan, operator: isOperator } satisfies OwnAccount;
    },
  }),
  /** The last 100 keys of the account, masked, newest first (contract.md#c10-revoke-and-list). */
  route({
    id: 'listDeveloperKeys',
    method: 'GET',
    path: '/v1/keys/developer',
    access: 'signIn',
    tag: 'Keys',
    summary: 'List the keys of the account',
    description: 'Masked, newest first, the last 100.',
    answers: {
      description: 'The keys.',
      schema: developerKeyListSchema,
      parts: [developerKeySchema],
      example: {
        object: 'list',
        data: [
          {
            id: 'key_01KBN4V4W0R2E9Z6Y5QH3T8MXA',
            key: maskedKey,
            plan: 'free',
            state: 'active',
            createdAt: '2026-03-01T09:00:00.000Z',
            lastUsedAt: '2026-03-02T10:30:00.000Z',
          },
        ],
      },
    },
    noStore: true,
    inTurns: true,
    async handle({ caller }, { store }) {
      const account = await store.accounts.findAccount(caller.account);
      return { object: 'list' as const, data: account === undefined ? [] : presentDeveloperKeys(account) };
    },
  }),
  /**
   * Mints the key of the account, and shows it in full only this once. If the account has a key, returns it
   * masked. 200 in both cases (contract.md#c4-repeated-mint, contract.md#t2-key-routes).
   */
  route({
    id: 'mintDeveloperKey',
    method: 'POST',
    path: '/v1/keys/developer',
    access: 'signIn',
    tag: 'Keys',
    summary: 'Mint the key of the account',
    description:
      'Shown in full only once; the service stores only a hash. If the account has an active key, returns that key, masked.',
    body: { schema: emptyObject, example: {} },
    answers: { description: 'The key.', schema: mintedKeySchema, example: { key: fullKey, plan: 'free' } },
    limits: ['settings_limit'],
    noStore: true,
    async handle(request, { authentication: { changeRecorded, peppers } }) {
      const { planFile, caller, at } = request;
      const { account: id } = caller;
      const { key, stored } = newKey(peppers, at);
      const decide = mintKey({ account: id, plan: planFile.defaultPlan, key: stored });
      const { minted, account } = await changeRecorded(id, decide, byOwner(request));
      return { key: minted ? key : maskKey(defaultKeyOf(account)?.display ?? ''), plan: account.plan };
    },
  }),
  /**
   * The named key stops working everywhere, and its replacement is shown in full only this once.
   * `INVALID_KEY` for any key except the account's active one (contract.md#c6-wrong-keys).
   */
  route({
    id: 'rotateDeveloperKey',
    method: 'POST',
    path: '/v1/keys/developer/rotate',
    access: 'signIn',
    tag: 'Keys',
    summary: 'Rotate a key',
    description: 'The old key stops working immediately, everywhere. Plan, quota and usage carry over.',
    body: { schema: namedKeyBody, example: { key: maskedKey } },
    answers: {
      description: 'The new key, shown in full only once.',
      schema: rotatedKeySchema,
      example: { key: fullKey, plan: 'free', rotated: true },
    },
    refusals: ['INVALID_KEY'],
    limits: ['settings_limit'],
    noStore: true,
    async handle(request, { authentication: { changeRecorded, peppers } }) {
      const { caller, at, body } = request;
      const named = nameKey(body.key, peppers);
      const { key, stored } = newKey(peppers, at);
      const account = await changeRecorded(caller.account, rotateKey({ named, key: stored }), byOwner(request));
      if (account === undefined) throw invalidKey();
      return { key, plan: account.plan, rotated: true as const };
    },
  }),
  /** The named key stops working everywhere; `INVALID_KEY` as for rotation. */
  route({
    id: 'revokeDeveloperKey',
    method: 'POST',
    path: '/v1/keys/developer/revoke',
    access: 'signIn',
    tag: 'Keys',
    summary: 'Revoke a key',
    description: 'It stops working immediately, everywhere. No key replaces it.',
    body: { schema: namedKeyBody, example: { key: maskedKey } },
    answers: {
      description: 'The revoked key, masked.',
      schema: revokedKeySchema,
      example: { key: maskedKey, plan: 'free', revoked: true },
    },
    refusals: ['INVALID_KEY'],
    limits: ['settings_limit'],
    noStore: true,
    async handle(request, { authentication: { changeRecorded, peppers } }) {
      const { caller, at, body } = request;
      const decide = revokeKey({ named: nameKey(body.key, peppers), at });
      const account = await changeRecorded(caller.account, decide, byOwner(request));
      if (account === undefined) throw invalidKey();
      return { key: maskKey(body.key), plan: account.plan, revoked: true as const };
    },
  }),
];

type OwnerRequest = Pick<RouteRequest<'signIn'>, 'caller' | 'address' | 'requestId'>;

/** What the record and the log have of a request that changes its own account. */
export function byOwner({ caller: { version: checkedVersion }, address, requestId }: OwnerRequest) {
  return { requestId, checkedVersion, origin: { address, reason: null } };
}

/** A text that is not a key gets the same error as a key of another account. */
function nameKey(text: string, peppers: readonly string[]): NamedKey {
  if (isMaskedKey(text)) return { display: displayPart(text) };
  if (!isWellFormedKey(text)) throw invalidKey();
  return keyCredential(text, peppers);
}
