import { ulid } from 'ulid';
import { z } from 'zod';
import { validationError } from '../../../shared/errors.ts';
import type { Log } from '../../../shared/process/log.ts';
import type { Store } from '../../../shared/store/store.ts';
import {
  noSuchCode,
  revokeCode,
  shownCodeStates,
  shownStateOf,
  type TopUpCode,
} from '../../../shared/store/top-up-codes/top-up-code.ts';
import { parseBody } from '../../api/json-body.ts';
import { limitParameter, parseQuery } from '../../api/list-query.ts';
import { presentList } from '../../api/present-list.ts';
import { hashTopUpCode, makeTopUpCode } from '../../callers/top-up-code-text.ts';
import { type AppContext, pathParameter, type Stage, stateOf, timeOf } from '../../request-state.ts';
import { newCodesBody, type ShownTopUpCode } from './top-up-code-schemas.ts';

type CodeDeps = { store: Pick<Store, 'topUpCodes'>; log: Pick<Log, 'info'> };

const codeId = /^tuc_[0-9A-HJKMNP-TV-Z]{26}$/;

export const codesQuery = z.strictObject({
  state: z.enum(shownCodeStates).optional().meta({ description: 'Only codes in this state.' }),
  limit: limitParameter({ max: 100, usual: 20 }),
  after: z
    .string()
    .regex(codeId, 'expected the id of a top-up code')
    .optional()
    .meta({ description: 'The code before the first one to return: `last_id` of the previous page.' }),
});

/**
 * `POST /admin/top-up-codes`: makes codes, and shows them only this once (contract.md#j5-overage-and-top-up-codes). If the answer is lost,
 * the codes exist, and no one knows them: they can be revoked.
 */
export function createTopUpCodes({ store, log }: CodeDeps): Stage {
  return async function createTopUpCodes(ctx) {
    const body = parseBody(newCodesBody, stateOf(ctx, 'body'));
    const { tokens, count, expires_at: expiresAt = null, note } = body;
    const createdAt = timeOf(ctx);
    if (expiresAt !== null && expiresAt * 1000 <= createdAt.getTime()) {
      throw validationError([{ path: 'expires_at', message: 'expected a time that has not passed' }]);
    }
    const [createdBy, createdFrom] = [stateOf(ctx, 'caller').account, stateOf(ctx, 'address')];
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
    const said = { requestId: stateOf(ctx, 'requestId'), by: createdBy, address: createdFrom, tokens, count, note };
    log.info(said, 'top-up codes were created');
    ctx.body = { object: 'list', data: made.map((each) => ({ ...each, tokens, expires_at: expiresAt })) };
  };
}

/** `GET /admin/top-up-codes`: newest first. `after` can be any id, because ids sort by time. */
export function listTopUpCodes({ store }: Pick<CodeDeps, 'store'>): Stage {
  return async function listTopUpCodes(ctx) {
    const { limit, ...page } = parseQuery(codesQuery, ctx.querystring);
    const now = timeOf(ctx);
    const found = await store.topUpCodes.listCodes({ ...page, now, limit: limit + 1 });
    ctx.body = presentList({ found, limit, present: (code) => presentCode(code, now) });
  };
}

/** `DELETE /admin/top-up-codes/{id}`: revokes a code that was not redeemed. Idempotent. */
export function revokeTopUpCode({ store, log }: CodeDeps): Stage {
  return async function revokeTopUpCode(ctx) {
    const id = wantedCode(ctx);
    const [by, from, at] = [stateOf(ctx, 'caller').account, stateOf(ctx, 'address'), timeOf(ctx)];
    const { code, isNew } = await store.topUpCodes.changeCode(id, revokeCode({ by, from, at }));
    if (isNew)
      log.info({ requestId: stateOf(ctx, 'requestId'), by, address: from, code: id }, 'a top-up code was revoked');
    ctx.body = presentCode(code, at);
  };
}

function wantedCode(ctx: AppContext): string {
  const id = pathParameter(ctx, 'code');
  if (!codeId.test(id)) throw noSuchCode();
  return id;
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
    expires_at: orNull(expiresAt),
    redeemed_at: orNull(redeemed?.at),
    redeemed_by: redeemed?.account ?? null,
    applied_at: orNull(appliedAt),
    revoked_at: orNull(revoked?.at),
    revoked_by: revoked?.by ?? null,
    revoked_from: revoked?.from ?? null,
  };
}

function orNull(time: Date | undefined): number | null {
  return time === undefined ? null : secondsOf(time);
}

function secondsOf(time: Date): number {
  return Math.floor(time.getTime() / 1000);
}
