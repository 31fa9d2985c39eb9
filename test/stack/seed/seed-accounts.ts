/** A model with its tier, and an endpoint that it offers. */
export type PastModel = { model: string; tier: string; endpoint: string };

/** A further key. `fillsTo`: how many tokens it has used in this month, of its limit. */
export type SeedKey = {
  name: string;
  expiresInHours?: number;
  tokensPerMonth?: number;
  fillsTo?: number;
};

/**
 * A batch that completes with some failed lines, one that runs for half an hour, one that is cancelled, or one that fails because of a line
 * that is not JSON.
 */
export type SeedBatch = 'completed' | 'running' | 'cancelled' | 'failed';

export type SeedAccount = {
  name: string;
  plan: 'free' | 'pro';
  models: readonly PastModel[];
  /** On a working day of this month. */
  requestsPerDay: number;
  /** Sent through the API, so that the latest ones have everything that real ones have. */
  requestsNow: number;
  /** Whether its first key is rotated, so that the list of its keys has a history. */
  rotates?: boolean;
  keys?: readonly SeedKey[];
  /** How much of the allowance of this month is used, from 0 to 1. */
  fillsMonthTo?: number;
  batches?: readonly SeedBatch[];
};

const chat = '/v1/chat/completions';
const small = { model: 'small-chat', tier: 'guest', endpoint: chat };
const medium = { model: 'medium-chat', tier: 'standard', endpoint: chat };
const large = { model: 'large-chat', tier: 'premium', endpoint: chat };
const messages = { ...medium, endpoint: '/v1/messages' };
const responses = { ...large, endpoint: '/v1/responses' };
const embed = { model: 'small-embed', tier: 'guest', endpoint: '/v1/embeddings' };

const limitedKey = { name: 'nightly import', tokensPerMonth: 2_000_000, fillsTo: 1_880_000 };
const endingKey = { name: 'demo at the fair', expiresInHours: 40 };

export const seedAccounts: readonly SeedAccount[] = [
  {
    ...{ name: 'ada', plan: 'pro', models: [small, medium, large, responses, embed], rotates: true },
    ...{ requestsPerDay: 80, requestsNow: 4, keys: [limitedKey, endingKey] },
    batches: ['completed', 'cancelled', 'running'],
  },
  {
    ...{ name: 'grace', plan: 'free', models: [small, medium], fillsMonthTo: 0.8 },
    ...{ requestsPerDay: 40, requestsNow: 3, batches: ['completed', 'failed'] },
  },
  { name: 'linus', plan: 'free', models: [small], requestsPerDay: 6, requestsNow: 1 },
  { name: 'margaret', plan: 'pro', models: [large, messages, embed], requestsPerDay: 50, requestsNow: 1 },
  { name: 'katherine', plan: 'pro', models: [medium, large], requestsPerDay: 30, requestsNow: 0 },
  { name: 'barbara', plan: 'free', models: [small, embed], requestsPerDay: 16, requestsNow: 0 },
  { name: 'edsger', plan: 'free', models: [small, messages], requestsPerDay: 12, requestsNow: 0 },
  { name: 'radia', plan: 'pro', models: [medium, responses], requestsPerDay: 20, requestsNow: 0 },
  { name: 'donald', plan: 'free', models: [medium], requestsPerDay: 9, requestsNow: 0 },
  { name: 'frances', plan: 'free', models: [embed], requestsPerDay: 14, requestsNow: 0 },
  { name: 'alan', plan: 'free', models: [small, medium], requestsPerDay: 3, requestsNow: 0 },
  { name: 'hedy', plan: 'free', models: [small], requestsPerDay: 1, requestsNow: 0 },
];
