import { type RouteDescriptions, refusedBody, refusedHead } from '../description/route-description.ts';

const key = 'svc_…';
const masked = 'svc_Ab3xYz****';

export const keyRoutes = {
  'GET /v1/account': {
    id: 'retrieveOwnAccount',
    tag: 'Keys',
    summary: 'Retrieve the account that signed in',
    description: 'Its name, its plan, and whether the token is one of an operator.',
    credential: 'signIn',
    answer: {
      description: 'The account.',
      schema: 'OwnAccount',
      example: { object: 'account', account: 'user:alice', plan: 'free', operator: false },
    },
    refusals: refusedHead.signIn,
  },
  'GET /v1/keys/developer': {
    id: 'listDeveloperKeys',
    tag: 'Keys',
    summary: 'List the keys of the account',
    description: 'Masked, newest first, the last 100.',
    credential: 'signIn',
    answer: {
      description: 'The keys.',
      schema: 'DeveloperKeyList',
      example: {
        object: 'list',
        data: [
          {
            id: 'key_01KBN4V4W0R2E9Z6Y5QH3T8MXA',
            key: masked,
            plan: 'free',
            state: 'active',
            createdAt: '2026-03-01T09:00:00.000Z',
            lastUsedAt: '2026-03-02T10:30:00.000Z',
          },
        ],
      },
    },
    refusals: refusedHead.signIn,
  },
  'POST /v1/keys/developer': {
    id: 'mintDeveloperKey',
    tag: 'Keys',
    summary: 'Mint the key of the account',
    description:
      'Shown in full only once; the service stores only a hash. If the account has an active key, returns that key, masked.',
    credential: 'signIn',
    body: { schema: 'EmptyObject', example: {} },
    answer: { description: 'The key.', schema: 'MintedKey', example: { key, plan: 'free' } },
    refusals: [...refusedHead.signIn, ...refusedBody, 'rate_limit_exceeded'],
    limits: ['settings_limit'],
  },
  'POST /v1/keys/developer/rotate': {
    id: 'rotateDeveloperKey',
    tag: 'Keys',
    summary: 'Rotate a key',
    description: 'The old key stops working immediately, everywhere. Plan, quota and usage carry over.',
    credential: 'signIn',
    body: { schema: 'NamedKey', example: { key: masked } },
    answer: {
      description: 'The new key, shown in full only once.',
      schema: 'RotatedKey',
      example: { key, plan: 'free', rotated: true },
    },
    refusals: [...refusedHead.signIn, 'INVALID_KEY', ...refusedBody, 'rate_limit_exceeded'],
    limits: ['settings_limit'],
  },
  'POST /v1/keys/developer/revoke': {
    id: 'revokeDeveloperKey',
    tag: 'Keys',
    summary: 'Revoke a key',
    description: 'It stops working immediately, everywhere. No key replaces it.',
    credential: 'signIn',
    body: { schema: 'NamedKey', example: { key: masked } },
    answer: {
      description: 'The revoked key, masked.',
      schema: 'RevokedKey',
      example: { key: masked, plan: 'free', revoked: true },
    },
    refusals: [...refusedHead.signIn, 'INVALID_KEY', ...refusedBody, 'rate_limit_exceeded'],
    limits: ['settings_limit'],
  },
  'POST /v1/keys/guest': {
    id: 'mintGuestKey',
    tag: 'Keys',
    summary: 'Mint the key of a device',
    description:
      'Returns the same key at each call with the same `device_id`. The key gives access to models of the tier `guest`, with a daily limit.',
    credential: 'none',
    body: { schema: 'Device', example: { device_id: '3f2504e0-4f89-41d3-9a0c-0305e82c3301' } },
    answer: {
      description: 'The key, in full.',
      schema: 'GuestKey',
      example: { key, plan: 'guest-device', rate_limit_per_day: 50 },
    },
    refusals: [...refusedHead.none, 'FORBIDDEN', ...refusedBody, 'rate_limit_exceeded'],
    limits: ['guest_calls', 'guest_mints'],
  },
} as const satisfies RouteDescriptions;
