import { createAffinityKeys } from '../../../shared/endpoints/affinity-keys.ts';
import { endpointAt } from '../../../shared/endpoints/endpoints.ts';
import { median } from '../measure.ts';

/** Median microseconds of making the keys of one request. */
export type KeyCost = Record<'prefix' | 'none', number>;

const calls = 10_000;
const characters = 4_096;

/** A chat with a system message, of 4 KiB in total, by turns with affinity and without. */
export function measureKeyCost(): KeyCost {
  const affinityKeys = createAffinityKeys('pepper');
  const text = 'The quick brown fox jumps over the lazy dog. '.repeat(characters);
  const request = {
    messages: [
      { role: 'system', content: text.slice(0, characters / 4) },
      { role: 'user', content: text.slice(0, (3 * characters) / 4) },
    ],
  };
  const backends = { a: { location: 'on-prem' }, b: { location: 'on-prem' } };
  const planWith = (affinity: 'prefix' | 'none') => ({
    models: { chat: { affinity, backends: ['a', 'b'] } },
    backends,
  });
  const plans = { prefix: planWith('prefix'), none: planWith('none') };
  const endpoint = endpointAt('/v1/chat/completions');
  const micros: Record<keyof KeyCost, number[]> = { prefix: [], none: [] };
  for (let call = 0; call < calls; call++) {
    for (const name of ['prefix', 'none'] as const) {
      const begunAt = process.hrtime.bigint();
      affinityKeys(endpoint, request, { planFile: plans[name], model: 'chat', account: 'user:a' });
      micros[name].push(Number(process.hrtime.bigint() - begunAt) / 1_000);
    }
  }
  return { prefix: median(micros.prefix), none: median(micros.none) };
}
