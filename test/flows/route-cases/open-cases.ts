import { makeTopUpCode } from '../../../ingress/routes/top-up-codes.ts';
import { openStore } from '../../../shared/process/open-store.ts';
import { codeFailuresKey, guestCallsKey, settingsWritesKey } from '../../../shared/redis/keys.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { type Stack, startStack } from '../../stack/stack.ts';
import { documentedRoutes } from '../../support/api-routes.ts';
import type { Route } from '../../support/documented-answers.ts';
import { createKeyClient, type KeyClient } from '../../support/key-client.ts';
import { openRedis } from '../../support/open-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { claimUsedKeys } from '../../support/used-idempotency-keys.ts';
import { accountsCases, createActionCast } from './accounts-cases.ts';
import { billingCases, createTopUpCast, topUpPlans } from './billing-cases.ts';
import { as, bodyBytesMax, type Case, ok } from './case.ts';
import { busyAddress, commonCases } from './common-cases.ts';
import { createFileCast, filePlans, filesCases, filesOfTests } from './files-cases.ts';
import { bodies, inferenceCases, models } from './inference-cases.ts';
import { createDefaultKeyCast, createFurtherKeyCast, keysCases } from './keys-cases.ts';
import { createWebhookCast, webhookEnv, webhooksCases } from './webhooks-cases.ts';

/** Where callers are created. */
export type CastParts = { stack: Stack; keys: KeyClient; store: Store };

/** Callers and their credentials, created once before all cases. */
export type Cast = Awaited<ReturnType<typeof createCast>>;

/** One is of the account whose first request uses up its month. */
const plans = {
  ...filePlans,
  ...topUpPlans,
  'one-token': { tokens_per_month: 1, model_tiers: ['guest'] },
  // One device sends several requests to each endpoint.
  'guest-device': { requests_per_minute: 100, requests_per_day: 50, priority: 100, model_tiers: ['guest'] },
};

/** All cases come from a few addresses. */
const guests = { guest_calls_per_minute: 1_000 };

const env = {
  KEY_PEPPER: 'a pepper of at least 32 characters for every route',
  BODY_BYTES_MAX: String(bodyBytesMax),
  TRUST_PROXY: '1',
  DOCS_URL: 'https://docs.example.com/here/',
  // The other pool has no workers: its jobs keep waiting.
  POOLS: 'default',
  TOPUP_URL: 'https://billing.example.com/top-up',
  ...webhookEnv,
};

/** Starts a service, by default with the embedded store, and prepares every case of every route. `parts` closes what it opens. */
export async function openCases(parts: AsyncDisposableStack, databaseUrl?: string) {
  const stack = parts.use(await startStack({ databaseUrl, env, plans, models, batch: filesOfTests, guests }));
  const keys = createKeyClient(stack);
  const store = parts.use(await openStore(databaseUrl ?? `sqlite:${stack.directory}/store.sqlite`, recordedLog()));
  const cast = await createCast({ stack, keys, store });
  await claimUsedKeys(stack, { account: 'user:alice', pepper: env.KEY_PEPPER, bodies });
  for (let device = 1; device <= 20; device++) await keys.guest(`device-${device}`, { 'x-forwarded-for': '10.9.9.9' });
  return { stack, port: Number(new URL(stack.ingresses[0]?.url ?? '').port), cast, cases: casesOf(cast) };
}

/** Accounts and devices in each state that routes distinguish. */
async function createCast(parts: CastParts) {
  const { stack, keys } = parts;
  await limitForAnHour(stack, keys);
  const defaultKeys = await createDefaultKeyCast(parts);
  await keys.change('user:topped', { overageEnabled: true, topUp: { id: 'first', tokens: 500 } });
  const spentKey = await keys.newKey('spent');
  await keys.change('user:spent', { plan: 'one-token' });
  await keys.infer(spentKey);
  const { data } = (await keys.send('GET', '/v1/requests', { bearer: spentKey })).body as { data: { id: string }[] }; // a list of the service itself
  await keys.newKey('a/b');
  await keys.newKey('ü 100%');
  return {
    ...defaultKeys,
    spentKey,
    spentRequest: data[0]?.id ?? '',
    ...(await createFileCast(parts)),
    ...(await createFurtherKeyCast(keys)),
    ...(await createTopUpCast(parts)),
    ...(await createWebhookCast(keys)),
    ...(await createActionCast(parts)),
  };
}

/** Such a limit lasts a minute, which may be over when its case is sent. */
async function limitForAnHour({ redisUrl }: Pick<Stack, 'redisUrl'>, keys: KeyClient): Promise<void> {
  const redis = openRedis(redisUrl);
  for (const key of [settingsWritesKey('user:eager'), guestCallsKey(busyAddress), codeFailuresKey('user:guesser')])
    await redis.set(key, 1e9, 'PX', 3_600_000);
  redis.disconnect();
  await keys.mint('eager');
  await keys.signedIn('guesser', 'POST', '/billing/top-ups', { code: makeTopUpCode() });
}

/**
 * Every case of every route: those that follow from what it declares, and those that are special to it. Their order does not matter. Each
 * can be sent repeatedly, except the first mint, rotations, revocations and deletions.
 */
function casesOf(cast: Cast): Readonly<Record<Route, readonly Case[]>> {
  const special = [filesCases, keysCases, inferenceCases, billingCases, accountsCases, webhooksCases, pageCases];
  const all = new Map(Object.entries(documentedRoutes).map(([name, route]) => [name, commonCases(route, cast)]));
  for (const [name, cases] of special.flatMap((casesOf) => Object.entries(casesOf(cast)))) {
    const known = all.get(name);
    if (known === undefined) throw new Error(`there is no route ${name}`);
    known.push(...cases);
  }
  return Object.fromEntries(all);
}

function pageCases(): Record<Route, Case[]> {
  return {
    'GET /': [
      ok('anything', as()('GET /', undefined, 'Accept: */*'), (t, body) => {
        t.deepEqual(Object.keys(body).sort(), ['console', 'docs', 'openapi']);
        t.is(body.docs, 'https://docs.example.com/here');
      }),
    ],
    'GET /openapi.json': [ok('no credential', as()('GET /openapi.json'), /"openapi":"3\.1/)],
    'GET /plan-file.schema.json': [
      ok('no credential', as()('GET /plan-file.schema.json'), {
        title: 'Plan file',
        required: ['default_plan', 'plans', 'models', 'backends'],
      }),
    ],
  };
}
