import { revocationQuery } from '../../routes/keys/further-keys.ts';
import { type RouteDescriptions, refusedBody, refusedHead } from '../description/route-description.ts';

const full = 'svc_…';
const key = {
  id: 'key_01KBN4V4W0R2E9Z6Y5QH3T8MXA',
  object: 'key',
  name: 'nightly import',
  key: 'svc_Ab3xYz****',
  default: false,
  state: 'active',
  created_at: 1_767_225_600,
  expires_at: 1_798_761_600,
  valid_until: null,
  ended_at: null,
  last_used_at: 1_767_225_660,
  endpoints: ['/v1/embeddings'],
  models: null,
  allowed_ips: ['192.0.2.0/24'],
  limits: { requests_per_minute: 60, tokens_per_minute: null, tokens_per_month: 1_000_000 },
  files: 'own',
  usage: { month: '2026-01', requests: 42, tokens: 3_120 },
} as const;
const unused = { ...key, last_used_at: null, usage: { month: '2026-01', requests: 0, tokens: 0 } };
const { name, expires_at, endpoints, allowed_ips } = key;
const wanted = {
  name,
  expires_at,
  endpoints,
  allowed_ips,
  limits: { requests_per_minute: 60, tokens_per_month: 1_000_000 },
};
const newId = 'key_01KBN5A0B1C2D3E4F5G6H7J8KM';

export const furtherKeyRoutes = {
  'POST /v1/keys': {
    id: 'createKey',
    tag: 'Keys',
    summary: 'Create a further key',
    description:
      'Shown in full only once. All keys of an account share its quota and its limits per minute; the limits of a key narrow that further. At most 100 further keys can be valid; then `CONFLICT`.',
    credential: 'signIn',
    body: { schema: 'NewKey', example: wanted },
    answer: { description: 'The key.', schema: 'CreatedKey', example: { ...unused, key: full } },
    refusals: [...refusedHead.signIn, ...refusedBody, 'CONFLICT', 'rate_limit_exceeded'],
    limits: ['settings_limit'],
  },
  'GET /v1/keys': {
    id: 'listKeys',
    tag: 'Keys',
    summary: 'List all keys of the account',
    description: 'Masked: the default key, further keys, then the last keys that have ended. All in one page.',
    credential: 'signIn',
    answer: {
      description: 'The keys.',
      schema: 'KeyList',
      example: { object: 'list', data: [key], first_id: key.id, last_id: key.id, has_more: false },
    },
    refusals: refusedHead.signIn,
  },
  'GET /v1/keys/key_:key': {
    id: 'retrieveKey',
    tag: 'Keys',
    summary: 'Retrieve a key of the account',
    credential: 'signIn',
    answer: { description: 'The key, masked.', schema: 'Key', example: key },
    refusals: [...refusedHead.signIn, 'NOT_FOUND'],
  },
  'PATCH /v1/keys/key_:key': {
    id: 'updateKey',
    tag: 'Keys',
    summary: 'Change a further key',
    description:
      'Replaces the fields that are sent; null removes one. It applies to every request that begins after the answer. `CONFLICT` for the default key, which has no settings, and for a key that was rotated or revoked.',
    credential: 'signIn',
    body: { schema: 'KeyChange', example: { models: ['small-chat'], expires_at: null } },
    answer: {
      description: 'The key, masked.',
      schema: 'Key',
      example: { ...key, models: ['small-chat'], expires_at: null },
    },
    refusals: [...refusedHead.signIn, ...refusedBody, 'NOT_FOUND', 'CONFLICT', 'rate_limit_exceeded'],
    limits: ['settings_limit'],
  },
  'POST /v1/keys/key_:key/rotate': {
    id: 'rotateKey',
    tag: 'Keys',
    summary: 'Rotate a key, with a grace period',
    description:
      'The new key has the settings of the old one, which stays valid for `grace_seconds`. Works for the default key, too. `CONFLICT` for a key that has ended or expired.',
    credential: 'signIn',
    body: { schema: 'KeyRotation', example: { grace_seconds: 86_400 } },
    answer: {
      description: 'The new key, in full only this once, and the old one.',
      schema: 'SuccessorKey',
      example: {
        ...unused,
        id: newId,
        key: full,
        replaces: { ...key, state: 'rotated', valid_until: 1_767_312_000 },
      },
    },
    refusals: [...refusedHead.signIn, ...refusedBody, 'NOT_FOUND', 'CONFLICT', 'rate_limit_exceeded'],
    limits: ['settings_limit'],
  },
  'DELETE /v1/keys/key_:key': {
    id: 'revokeKey',
    tag: 'Keys',
    summary: 'Revoke a key of the account',
    description:
      'It stops working immediately, everywhere. A key that has ended stays as it is. Running requests and batches of the key continue, unless `end_requests` is true; a repeat ends what is left of them.',
    credential: 'signIn',
    query: revocationQuery,
    answer: {
      description: 'The key, masked.',
      schema: 'Key',
      example: { ...key, state: 'revoked', ended_at: 1_767_225_700 },
    },
    refusals: [...refusedHead.signIn, 'NOT_FOUND', 'rate_limit_exceeded'],
    limits: ['settings_limit'],
  },
  'GET /v1/key': {
    id: 'retrieveOwnKey',
    tag: 'Keys',
    summary: 'Retrieve the key of this request',
    description:
      'What the key is, what it may do, what it has used this month, and how many requests its account has made today. Works with every key.',
    credential: 'key',
    answer: {
      description: 'The key, masked.',
      schema: 'OwnKey',
      example: { ...key, plan: 'free', day: { requests: 0, limit: null } },
    },
    refusals: refusedHead.key,
  },
} as const satisfies RouteDescriptions;
