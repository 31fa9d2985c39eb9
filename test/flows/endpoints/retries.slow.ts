import test from 'ava';
import { countersKey } from '../../../shared/redis/keys.ts';
import { openAccount } from '../../support/endpoints/open-account.ts';
import { endpointNames, sdkCalls } from '../../support/endpoints/sdk-calls.ts';
import { everyEndpoint } from '../../support/every-endpoint.ts';
import { openRedis } from '../../support/open-redis.ts';
import { openSharedStack } from '../../support/shared-stack.ts';

const faulty = endpointNames.map((name) => [`faulty-${name}`, { ...everyEndpoint.everything, backends: ['onprem-b'] }]);
const plans = { 'one-request-a-minute': { requests_per_minute: 1, model_tiers: ['guest'] } };
const shared = openSharedStack(test, { models: { ...everyEndpoint, ...Object.fromEntries(faulty) }, plans });

type Exchange = { sentAt: number; status: number; waitMs: number };

/** An account whose packages retry as they do by default. `afterEach` is called with each response. */
async function openRetrying(
  name: string,
  { plan, afterEach }: { plan?: string; afterEach?: (status: number) => void },
) {
  const exchanges: Exchange[] = [];
  const account = await openAccount(shared.stack(), name, {
    ...(plan !== undefined && { plan }),
    maxRetries: 2,
    async fetch(url, init) {
      const sentAt = performance.now();
      const response = await fetch(url, init);
      const { headers, status } = response;
      const waitMs = Number(headers.get('retry-after-ms') ?? Number(headers.get('retry-after')) * 1_000);
      exchanges.push({ sentAt, status, waitMs });
      afterEach?.(status);
      return response;
    },
  });
  return { account, exchanges };
}

/** Moves the account's last minute into the past by `ms`, so that a test need not wait for all of it. */
async function ageWindow(account: string, ms: number): Promise<void> {
  const redis = openRedis(shared.stack().redisUrl);
  const [buckets = '[]'] = (await redis.hget(countersKey(account), 'window'))?.split(' ') ?? [];
  const window = JSON.parse(buckets) as [number, ...number[]][]; // written by the service
  const aged = window.map(([begun, requests, tokens, last = 0]) => [begun - ms, requests, tokens, last - ms]);
  await redis.hset(countersKey(account), 'window', JSON.stringify(aged));
  redis.disconnect();
}

for (const name of endpointNames) {
  const ask = sdkCalls[name];

  test(`${name}: the package retries a burst after the advertised wait, and succeeds`, async (t) => {
    const { account, exchanges } = await openRetrying(`retries-${name}`, { plan: 'one-request-a-minute' });
    await ask(account);
    await ageWindow(`user:retries-${name}`, 50_000);
    t.truthy(await ask(account));
    t.deepEqual(
      exchanges.map(({ status }) => status),
      [200, 429, 200],
    );
    const [refused, answered] = exchanges.slice(-2);
    const pausedMs = (answered?.sentAt ?? 0) - (refused?.sentAt ?? 0);
    t.true((refused?.waitMs ?? 0) > 0 && pausedMs >= (refused?.waitMs ?? 0), `${pausedMs} ms for ${refused?.waitMs}`);
  });

  test(`${name}: the package retries when no backend answers, after the advertised wait, and succeeds`, async (t) => {
    const [, server] = shared.stack().modelServers;
    const model = `faulty-${name}`;
    server.fail({ status: 500 }, model);
    const afterEach = (status: number) => {
      if (status === 503) server.heal(model);
    };
    const { account, exchanges } = await openRetrying(`retries-503-${name}`, { afterEach });
    t.truthy(await ask(account, { model }));
    t.deepEqual(
      exchanges.map(({ status }) => status),
      [503, 200],
    );
    const [refused, answered] = exchanges;
    t.is(refused?.waitMs, 1_000);
    t.true((answered?.sentAt ?? 0) - (refused?.sentAt ?? 0) >= 1_000);
  });

  test(`${name}: the package does not retry what no wait changes`, async (t) => {
    const { account, exchanges } = await openRetrying(`retries-none-${name}`, {});
    await t.throwsAsync(ask(account, { model: 'large-chat' }), { message: /400|429/ });
    await t.throwsAsync(ask(account, { model: 'none' }), { message: /404/ });
    t.is(exchanges.length, 2, 'one request on the wire each');
  });
}
