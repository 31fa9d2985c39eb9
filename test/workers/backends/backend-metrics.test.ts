import test from 'ava';
import { Registry } from 'prom-client';
import { createBackendMetrics } from '../../../workers/backends/backend-metrics.ts';
import type { BackendSlots } from '../../../workers/backends/backend-slots.ts';
import { createPauses } from '../../../workers/backends/pauses.ts';

test('a breaker is counted from zero, so that its first opening is an increase, and pauses are shown while they last', async (t) => {
  const registry = new Registry();
  const metrics = createBackendMetrics(registry);
  const pauses = createPauses({ now: () => 0, onNews() {} });
  const slots: Pick<BackendSlots, 'breakerStatuses' | 'seenHealth' | 'load' | 'waiting' | 'pauses'> = {
    breakerStatuses: () => [{ backend: 'onprem-a', model: 'small-chat', breaker: 'closed' }],
    seenHealth: () =>
      [2, 0].map((suspects, index) => ({
        ...{ backend: 'onprem-a', model: `chat-${index}`, breaker: 'closed', firstTokenMs: undefined, suspects },
        ...{ answered: 0, failed: 0, promptTokens: 0, cachedTokens: 0 },
      })),
    load: () => [],
    waiting: () => 0,
    pauses,
  };
  metrics.observeBackends(slots as BackendSlots); // reads no more
  await registry.metrics();
  const series = 'svc_backend_breaker_opened_total{backend="onprem-a",model="small-chat"}';
  t.true((await registry.metrics()).includes(`${series} 0\n`));
  metrics.breakerOpened.inc({ backend: 'onprem-a', model: 'small-chat' });
  t.true((await registry.metrics()).includes(`${series} 1\n`));
  t.regex(await registry.metrics(), /^svc_backend_suspects\{backend="onprem-a",model="chat-0"\} 2$/m);
  t.notRegex(await registry.metrics(), /chat-1/);
  pauses.refusesAccount('onprem-a');
  pauses.setByOperator('onprem-b', 1_000);
  const paused = (await registry.metrics()).split('\n').filter((line) => line.startsWith('svc_backend_paused{'));
  t.deepEqual(paused, [
    'svc_backend_paused{backend="onprem-a",kind="account"} 1',
    'svc_backend_paused{backend="onprem-b",kind="operator"} 1',
  ]);
  pauses.setByOperator('onprem-b', 0);
  t.false((await registry.metrics()).includes('onprem-b'), 'a pause that has ended is gone');
});
