import type { Registry } from 'prom-client';
import type { IngressConfig } from '../process/config.ts';
import type { Log } from '../process/log.ts';
import { createRegistry } from '../process/metrics.ts';
import type { Tracing } from './span.ts';

type Telemetry = AsyncDisposable & { registry: Registry; tracing: Tracing | undefined };

/**
 * Creates the registry of a process's metrics, and opens tracing if it is on: otherwise none of its packages is loaded. Closing it sends
 * the spans that wait, for two seconds at most.
 */
export async function openTelemetry(deps: {
  config: Pick<IngressConfig, 'tracing'>;
  process: 'ingress' | 'worker';
  log: Log;
}): Promise<Telemetry> {
  const { tracing: config } = deps.config;
  const registry = createRegistry();
  const { url } = config;
  if (url === undefined) return { registry, tracing: undefined, async [Symbol.asyncDispose]() {} };
  const { openTracing } = await import('./open-tracing.ts');
  return { registry, ...openTracing({ ...deps, config: { ...config, url }, registry }) };
}
