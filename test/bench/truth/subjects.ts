import { names } from '../comparison/rows.ts';
import { startLitellm } from '../gateways/litellm.ts';
import type { Place } from '../gateways/places.ts';
import { startService } from '../gateways/start-service.ts';
import { lastLeaseEnd, lastSlotEnd } from './lock-ends.ts';
import { limits, type Subject } from './questions.ts';

const plans = {
  edge: { requests_per_minute: limits.perMinute },
  tokens: { tokens_per_minute: limits.tokensPerMinute },
  'at-once': { requests_at_once: limits.atOnce },
  'at-once-too': { requests_at_once: limits.atOnce },
  away: { requests_per_minute: limits.awayPerMinute },
};

type Owned = Subject & AsyncDisposable;

export async function serviceSubject({
  name = names.one,
  isCluster = false,
  ...place
}: Place & { name?: string; isCluster?: boolean }): Promise<Owned> {
  const inTier = Object.entries(plans).map(([name, plan]) => [name, { ...plan, model_tiers: ['guest'] }]);
  const service = await startService({
    ...{ ...place, isCluster, name: isCluster ? 'truth-cluster' : 'truth-service' },
    plans: Object.fromEntries(inTier),
  });
  const [ingress, worker] = [service.ingresses[0], service.workers[0]];
  if (ingress === undefined || worker === undefined) throw new Error('there must be one of each');
  const lockEnd = (account: string) => () => lastLeaseEnd(service.redis.url, `user:${account}`);
  const killed = async (dead: (typeof ingress)[]) => {
    await Promise.all(dead.map((each) => each.process.kill()));
    for (const each of dead) each.process = await each.start();
  };
  return {
    name,
    url: ingress.url,
    keys: {
      edge: await service.keyOn('edge'),
      tokens: await service.keyOn('tokens'),
      away: await service.keyOn('away'),
    },
    redis: service.redis,
    killings: {
      gateway: { key: await service.keyOn('at-once'), kill: () => killed([ingress]), lockEnd: lockEnd('at-once') },
      'all processes': {
        key: await service.keyOn('at-once-too'),
        kill: () => killed([ingress, worker]),
        lockEnd: lockEnd('at-once-too'),
      },
    },
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  };
}

export async function litellmSubject(place: Place & { peers: string }): Promise<Owned> {
  const keys = { edge: 'sk-edge', tokens: 'sk-tokens', away: 'sk-away' };
  const [first, second] = ['sk-at-once', 'sk-at-once-too'] as const;
  const litellm = await startLitellm({
    ...place,
    name: 'truth-litellm',
    keys: {
      [keys.edge]: { rpm_limit: limits.perMinute },
      [keys.tokens]: { tpm_limit: limits.tokensPerMinute },
      [first]: { max_parallel_requests: limits.atOnce },
      [second]: { max_parallel_requests: limits.atOnce },
      [keys.away]: { rpm_limit: limits.awayPerMinute },
    },
  });
  const gateway = litellm.place;
  const killed = async () => {
    await gateway.process.kill();
    gateway.process = await gateway.start();
  };
  const killing = (key: string) => ({ key, kill: killed, lockEnd: () => lastSlotEnd(litellm.redis.url, key) });
  return {
    ...{ name: names.litellm, url: gateway.url, keys, redis: litellm.redis },
    killings: { gateway: killing(first), 'all processes': killing(second) },
    [Symbol.asyncDispose]: () => litellm[Symbol.asyncDispose](),
  };
}
