import { topUpCodeForm } from '../../callers/top-up-code-text.ts';
import { codesQuery } from '../../routes/operators/top-up-codes.ts';
import { type RouteDescriptions, refusedBody, refusedHead } from '../description/route-description.ts';

const [id, tokens, expiresAt] = ['tuc_01KJMMA2KV0000015QP5D3J9J9', 500_000, 1_798_761_600];
const code = {
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

export const topUpCodeRoutes = {
  'POST /admin/top-up-codes': {
    id: 'createTopUpCodes',
    tag: 'Operators',
    summary: 'Create top-up codes',
    description:
      'Each adds `tokens` to the month of the account that redeems it, once. Shown only in this response. If the response is lost, list the codes, revoke those, and create others.',
    credential: 'operator',
    body: { schema: 'NewTopUpCodes', example: { tokens, count: 1, expires_at: expiresAt, note: code.note } },
    answer: {
      description: 'The codes.',
      schema: 'CreatedTopUpCodes',
      example: { object: 'list', data: [{ id, code: topUpCodeForm, tokens, expires_at: expiresAt }] },
    },
    refusals: [...refusedHead.signIn, ...refusedBody],
  },
  'GET /admin/top-up-codes': {
    id: 'listTopUpCodes',
    tag: 'Operators',
    summary: 'List top-up codes',
    description: 'Newest first, without the codes themselves. Codes are never removed.',
    credential: 'operator',
    query: codesQuery,
    answer: {
      description: 'A page of codes.',
      schema: 'TopUpCodeList',
      example: { object: 'list', data: [code], first_id: id, last_id: id, has_more: false },
    },
    refusals: refusedHead.signIn,
  },
  'DELETE /admin/top-up-codes/:code': {
    id: 'revokeTopUpCode',
    tag: 'Operators',
    summary: 'Revoke a top-up code',
    description: 'Revoking it again changes nothing. `CONFLICT`: an account has redeemed it.',
    credential: 'operator',
    answer: {
      description: 'The code.',
      schema: 'TopUpCode',
      example: {
        ...code,
        state: 'revoked',
        revoked_at: 1_772_442_000,
        revoked_by: 'user:olga',
        revoked_from: '198.51.100.7',
      },
    },
    refusals: [...refusedHead.signIn, 'NOT_FOUND', 'CONFLICT'],
  },
} as const satisfies RouteDescriptions;
