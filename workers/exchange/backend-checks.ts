import type { Agent } from 'undici';
import { oncePerObject } from '../../shared/once-per-object.ts';
import type { Backend } from '../../shared/plan-file/plan-file.ts';
import type { WorkerConfig } from '../../shared/process/config.ts';
import { atMostEvery, type Check } from '../../shared/process/operations.ts';
import { addressOf } from './call-backend.ts';

const checkEveryMs = 10_000;
const checkTimeoutMs = 1_000;

/** Returns the checks of backends by their names, each run at most every ten seconds. */
export function createBackendChecks({
  agent,
  apiKeyOf,
  timeoutMs = checkTimeoutMs,
}: {
  agent: Agent;
  apiKeyOf: WorkerConfig['apiKeyOf'];
  timeoutMs?: number;
}): (backends: ReadonlyMap<string, Backend>) => Record<string, Check> {
  const checkOf = oncePerObject((backend: Backend) =>
    atMostEvery(checkEveryMs, () => checkBackend(agent, backend, { apiKey: apiKeyOf(backend), timeoutMs })),
  );
  return function checksOf(backends) {
    return Object.fromEntries([...backends].map(([name, backend]) => [`backend ${name}`, checkOf(backend)]));
  };
}

/** Fails unless the backend answers `GET /models` with a status below 500. */
async function checkBackend(
  agent: Agent,
  backend: Backend,
  { apiKey, timeoutMs }: { apiKey: string | undefined; timeoutMs: number },
): Promise<void> {
  const { statusCode, body } = await agent.request({
    ...addressOf(backend, '/models'),
    method: 'GET',
    headers: apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` },
    signal: AbortSignal.timeout(timeoutMs),
  });
  await body.dump();
  if (statusCode >= 500) throw new Error(`the backend answered ${statusCode}`);
}
