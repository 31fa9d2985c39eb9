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
}: {
  agent: Agent;
  apiKeyOf: WorkerConfig['apiKeyOf'];
}): (backends: ReadonlyMap<string, Backend>) => Record<string, Check> {
  const checkOf = oncePerObject((backend: Backend) =>
    atMostEvery(checkEveryMs, () => checkBackend(agent, backend, apiKeyOf(backend))),
  );
  return function checksOf(backends) {
    return Object.fromEntries([...backends].map(([name, backend]) => [`backend ${name}`, checkOf(backend)]));
  };
}

/** Fails unless the backend answers `GET /models` with a status below 500. */
async function checkBackend(agent: Agent, backend: Backend, apiKey: string | undefined): Promise<void> {
  const { statusCode, body } = await agent.request({
    ...addressOf(backend, '/models'),
    method: 'GET',
    headers: apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` },
    signal: AbortSignal.timeout(checkTimeoutMs),
  });
  await body.dump();
  if (statusCode >= 500) throw new Error(`the backend answered ${statusCode}`);
}
