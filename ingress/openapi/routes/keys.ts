import { type RouteDescriptions, refusedBody, refusedHead } from '../description/route-description.ts';

const key = 'svc_…';
const masked = 'svc_Ab3xYz****';

export const keyRoutes = {
  'GET /v1/keys/developer': {
    id: 'listDeveloperKeys',
    tag: 'Keys',
    summary: "List the account's keys",
    description: 'Masked, the newest first, the last 100.',
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
    summary: "Mint the account's key",
    description: 'In full this once; only a hash is kept. An account that has an active key gets that one, masked.',
    credential: 'signIn',
    body: { schema: 'EmptyObject', example: {} },
    answer: { description: 'The key.', schema: 'MintedKey', example: { key, plan: 'free' } },
    refusals: [...refusedHead.signIn, ...refusedBody],
  },
  'POST /v1/keys/developer/rotate': {
    id: 'rotateDeveloperKey',
    tag: 'Keys',
    summary: 'Replace a key by a new one',
    description: 'The old key stops working at once, everywhere. Plan, quota standing and usage carry over.',
    credential: 'signIn',
    body: { schema: 'NamedKey', example: { key: masked } },
    answer: {
      description: 'The new key, in full this once.',
      schema: 'RotatedKey',
      example: { key, plan: 'free', rotated: true },
    },
    refusals: [...refusedHead.signIn, 'INVALID_KEY', ...refusedBody],
  },
  'POST /v1/keys/developer/revoke': {
    id: 'revokeDeveloperKey',
    tag: 'Keys',
    summary: 'End a key',
    description: 'It stops working at once, everywhere, and nothing takes its place.',
    credential: 'signIn',
    body: { schema: 'NamedKey', example: { key: masked } },
    answer: {
      description: 'The key that has ended, masked.',
      schema: 'RevokedKey',
      example: { key: masked, plan: 'free', revoked: true },
    },
    refusals: [...refusedHead.signIn, 'INVALID_KEY', ...refusedBody],
  },
  'POST /v1/keys/guest': {
    id: 'mintGuestKey',
    tag: 'Keys',
    summary: 'Mint the key of a device',
    description:
      'The same key at each call for one `device_id`. It reaches models of the tier `guest`, under a daily cap.',
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
