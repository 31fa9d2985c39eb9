import test from 'ava';
import { Registry } from 'prom-client';
import { createBackendMetrics } from '../../../workers/backends/backend-metrics.ts';
import type { BackendSlots } from '../../../workers/backends/backend-slots.ts';

test('a breaker is counted from zero, so that its first opening is an increase', async (t) => {
  const registry = new Registry();
  const metrics = createBackendMetrics(registry);
  const slots: Pick<BackendSlots, 'breakerStatuses' | 'load' | 'waiting'> = {
    breakerStatuses: () => [{ backend: 'onprem-a', model: 'small-chat', breaker: 'closed' }],
    load: () => [],
    waiting: () => 0,
  };
  metrics.observeBackends(slots as BackendSlots); // reads no more
  await registry.metrics();
  const series = 'svc_backend_breaker_opened_total{backend="onprem-a",model="small-chat"}';
  t.true((await registry.metrics()).includes(`${series} 0\n`));
  metrics.breakerOpened.inc({ backend: 'onprem-a', model: 'small-chat' });
  t.true((await registry.metrics()).includes(`${series} 1\n`));
});
