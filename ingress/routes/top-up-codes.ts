import { createHash, randomBytes } from 'node:crypto';
import { ulid } from 'ulid';
import { z } from 'zod';
import { validationError } from '../../shared/errors.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Store } from '../../shared/store/records/store.ts';
import {
  noSuchCode,
  revokeCode,
  shownCodeStates,
  shownStateOf,
  type TopUpCode,
} from '../../shared/store/records/top-up-codes.ts';
import { exampleList, limitParameter, listOf, presentList } from '../api/lists.ts';
import { latestTime, secondsOf, secondsOrNull } from '../api/response-fields.ts';
import { named, type Route, route } from '../api/route.ts';

const codeId = /^tuc_[0-9A-HJKMNP-TV-Z]{26}$/;

const codesQuery = z.strictObject({
  state: z.enum(shownCodeStates).optional().meta({ description: 'Only codes in this state.' }),
  limit: limitParameter({ max: 100, usual: 20 }),
  after: z
    .string()
    .regex(codeId, 'expected the id of a top-up code')
    .optional()
    .meta({ description: 'The code before the first one to return: `last_id` of the previous page.' }),
});

/** As for one top-up by an operator. */
const tokensMax = 1e12;

const countMax = 1_000;

/** An example for texts. */
export const topUpCodeForm = 'TOPUP-XXXXX-XXXXX-XXXXX-XXXXX-XXXXX-XXXXX';

const newCodesBody = named(
  'NewTopUpCodes',
  z.strictObject({
    tokens: z.int().positive().max(tokensMax).meta({ description: 'What each code adds to the month of its account.' }),
    count: z.int().min(1).max(countMax).default(1).meta({ description: 'How many codes.' }),
    expires_at: z
      .int()
      .min(0)
      .max(latestTime)
      .nullish()
      .meta({ description: 'From then on the codes cannot be redeemed. Seconds since 1970, UTC; null: never.' }),
    note: z
      .string()
      .regex(/^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}]{1,500}$/u, 'expected 1 to 500 characters, no control characters')
      .nullish()
      .meta({ description: 'What the codes are for, for operators.' }),
  }),
);

const seconds = z.int().nonnegative();

const tokensSchema = z.int().positive();

const idSchema = z.string();

export const createdTopUpCodesSchema = named(
  'CreatedTopUpCodes',
  z.strictObject({
    object: z.literal('list'),
    data: z.array(
      z.strictObject({
        id: idSchema,
        code: z.string().meta({ description: 'In full only in this response.' }),
        tokens: tokensSchema,
        expires_at: seconds.nullable(),
      }),
    ),
  }),
);

const topUpCodeSchema = named(
  'TopUpCode',
  z.strictObject({
    id: idSchema,
    object: z.literal('top_up_code'),
    tokens: tokensSchema,
    state: z.enum(shownCodeStates),
    note: z.string().nullable(),
    created_at: seconds.meta({ description: 'Seconds since 1970, UTC.' }),
    created_by: z.string().meta({ description: 'The account of the operator.' }),
    created_from: z.string().meta({ description: 'The client address of the operator.' }),
    expires_at: seconds.nullable().meta({ description: 'null: never.' }),
    redeemed_at: seconds.nullable(),
    redeemed_by: z.string().nullable().meta({ description: 'The account that has redeemed it.' }),
    applied_at: seconds
      .nullable()
      .meta({ description: 'Since when its tokens certainly count; null for a few seconds after it was redeemed.' }),
    revoked_at: seconds.nullable(),
    revoked_by: z.string().nullable(),
    revoked_from: z.string().nullable(),
  }),
);

export const topUpCodeListSchema = named('TopUpCodeList', listOf(topUpCodeSchema));

export type CreatedTopUpCode = z.infer<typeof createdTopUpCodesSchema>['data'][number];

export type ShownTopUpCode = z.infer<typeof topUpCodeSchema>;

const [id, tokens, expiresAt] = ['tuc_01KJMMA2KV0000015QP5D3J9J9', 500_000, 1_798_761_600];

const exampleCode = {
  id,
  object: 'top_up_code',
  tokens,
  state: 'unused',
  note: 'Spring sale',
  created_at: 1_772_355_600,
  created_by: 'user:olga',
  created_from: '198.51.100.7',
  expires_at: expiresAt,
  redeemed_at: null,
  redeemed_by: null,
  applied_at: null,
  revoked_at: null,
  revoked_by: null,
  revoked_from: null,
};

export const topUpCodeRoutes: readonly Route[] = [
  /**
   * Makes codes, and shows them only this once (contract.md#j5-overage-and-top-up-codes). If the answer is lost,
   * the codes exist, and no one knows them: they can be revoked.
   */
  route({
    id: 'createTopUpCodes',
    method: 'POST',
    path: '/admin/top-up-codes',
    access: 'operator',
    tag: 'Operators',
    summary: 'Create top-up codes',
    description:
      'Each adds `tokens` to the month of the account that redeems it, once. Adds one audit record. Shown only in this response. If the response is lost, list the codes, revoke those, and create others.',
    body: { schema: newCodesBody, example: { tokens, count: 1, expires_at: expiresAt, note: exampleCode.note } },
    answers: {
      description: 'The codes.',
      schema: createdTopUpCodesSchema,
      example: { object: 'list', data: [{ id, code: topUpCodeForm, tokens, expires_at: expiresAt }] },
    },
    noStore: true,
    async handle({ requestId, address, caller, at, body }, { store, log }) {
      const { tokens, count, expires_at: expiresAt = null, note } = body;
      const createdAt = at;
      if (expiresAt !== null && expiresAt * 1000 <= createdAt.getTime()) {
        throw validationError([{ path: 'expires_at', message: 'expected a time that has not passed' }]);
      }
      const [createdBy, createdFrom] = [caller.account, address];
      const made = Array.from({ length: count }, () => ({
        id: `tuc_${ulid(createdAt.getTime())}`,
        code: makeTopUpCode(),
      }));
      const common = {
        tokens,
        createdAt,
        createdBy,
        createdFrom,
        state: 'unused' as const,
        ...(typeof note === 'string' && { note }),
        ...(expiresAt !== null && { expiresAt: new Date(expiresAt * 1000) }),
      };
      await store.topUpCodes.insertCodes(made.map(({ id, code }) => ({ id, hash: hashTopUpCode(code), ...common })));
      const said = { requestId, by: createdBy, address: createdFrom, tokens, count, note };
      log.info(said, 'top-up codes were created');
      await copyRecord(made[0]?.id ?? '', { store, log });
      return { object: 'list' as const, data: made.map((each) => ({ ...each, tokens, expires_at: expiresAt })) };
    },
  }),
  /** Newest first. `after` can be any id, because ids sort by time. */
  route({
    id: 'listTopUpCodes',
    method: 'GET',
    path: '/admin/top-up-codes',
    access: 'operator',
    tag: 'Operators',
    summary: 'List top-up codes',
    description: 'Newest first, without the codes themselves. Codes are never removed.',
    query: codesQuery,
    answers: {
      description: 'A page of codes.',
      schema: topUpCodeListSchema,
      example: exampleList(exampleCode),
    },
    async handle({ at: now, query: { limit, ...page } }, { store }) {
      const found = await store.topUpCodes.listCodes({ ...page, now, limit: limit + 1 });
      return presentList({ found, limit, present: (code) => presentCode(code, now) });
    },
  }),
  /** Revokes a code that was not redeemed. Idempotent. */
  route({
    id: 'revokeTopUpCode',
    method: 'DELETE',
    path: '/admin/top-up-codes/:code',
    access: 'operator',
    tag: 'Operators',
    summary: 'Revoke a top-up code',
    description: 'Adds an audit record. Revoking it again changes nothing. `CONFLICT`: an account has redeemed it.',
    answers: {
      description: 'The code.',
      schema: topUpCodeSchema,
      example: {
        ...exampleCode,
        state: 'revoked',
        revoked_at: 1_772_442_000,
        revoked_by: 'user:olga',
        revoked_from: '198.51.100.7',
      },
    },
    refusals: ['NOT_FOUND', 'CONFLICT'],
    params: {
      code: { description: 'The id of a top-up code.', example: id, pattern: codeId, missing: noSuchCode },
    },
    async handle({ requestId, address: from, caller: { account: by }, at, params: { code: codeId } }, { store, log }) {
      const { code, isNew } = await store.topUpCodes.changeCode(codeId, revokeCode({ by, from, at }));
      if (isNew) log.info({ requestId, by, address: from, code: codeId }, 'a top-up code was revoked');
      await copyRecord(codeId, { store, log });
      return presentCode(code, at);
    },
  }),
];

/** The change is done, and its record is durable. If it cannot be copied now, a repeat or a worker copies it. */
async function copyRecord(code: string, { store, log }: { store: Pick<Store, 'audit'>; log: Log }): Promise<void> {
  await store.audit.copyCodeAudit(code).catch((error: unknown) => {
    log.warn({ err: error, code }, 'an audit record was not copied; it stays in its top-up code until a retry');
  });
}

function presentCode(code: TopUpCode, now: Date): ShownTopUpCode {
  const { id, tokens, note, createdAt, createdBy, createdFrom, expiresAt, redeemed, appliedAt, revoked } = code;
  return {
    id,
    object: 'top_up_code',
    tokens,
    state: shownStateOf(code, now),
    note: note ?? null,
    created_at: secondsOf(createdAt),
    created_by: createdBy,
    created_from: createdFrom,
    expires_at: secondsOrNull(expiresAt),
    redeemed_at: secondsOrNull(redeemed?.at),
    redeemed_by: redeemed?.account ?? null,
    applied_at: secondsOrNull(appliedAt),
    revoked_at: secondsOrNull(revoked?.at),
    revoked_by: revoked?.by ?? null,
    revoked_from: revoked?.from ?? null,
  };
}

/** Crockford's base32: no letter looks like a digit. */
const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

const prefix = 'TOPUP';

const groupLength = 5;

const symbolCount = 30;

/** Every letter but U. Without the flag `i`, under which some letters outside ASCII match, too. */
const typedForm = /^[Tt][Oo][Pp][Uu][Pp][0-9A-TV-Za-tv-z]{30}$/;

/** Makes a new code of 150 random bits, in the form of `topUpCodeForm`. */
export function makeTopUpCode(): string {
  // 256 is a multiple of 32, so no symbol is more frequent than others.
  return inGroups(Array.from(randomBytes(symbolCount), (byte) => alphabet.charAt(byte % alphabet.length)).join(''));
}

/**
 * Reads a code as a person may type it: in any case, with or without dashes and spaces, and with the letters O, I and L for the digits that
 * they look like. Returns it as it was made, or undefined for any other text.
 */
export function readTopUpCode(text: string): string | undefined {
  const typed = text.replace(/[\s\p{Pd}]/gu, '');
  if (!typedForm.test(typed)) return undefined;
  const symbols = typed.slice(prefix.length).toUpperCase().replaceAll('O', '0').replace(/[IL]/g, '1');
  return inGroups(symbols);
}

/** The value that is stored and looked up instead of the code. It needs no pepper, because a code cannot be guessed. */
export function hashTopUpCode(code: string): string {
  return createHash('sha256').update(code).digest('hex');
}

function inGroups(symbols: string): string {
  const groups = symbols.match(new RegExp(`.{${groupLength}}`, 'g')) ?? [];
  return [prefix, ...groups].join('-');
}
