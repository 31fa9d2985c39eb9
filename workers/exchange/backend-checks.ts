import type { Agent } from 'undici';
import type { Backend } from '../../shared/plan-file/plan-file.ts';
import type { WorkerConfig } from '../../shared/process/config.ts';
import { atMostEvery, type Check } from '../../shared/process/operations.ts';
import { addressOf } from './call-backend.ts';

const checkEveryMs = 10_000;
const checkTimeoutMs = 1_000;

/** Returns a check of each backend that this worker may call: only backends of the models of its pools. */
export function createBackendChecks(
  { planFile, pools, apiKeys }: Pick<WorkerConfig, 'planFile' | 'pools' | 'apiKeys'>,
  agent: Agent,
): Record<string, Check> {
  const served = Object.values(planFile.models).filter(({ pool }) => pools.includes(pool));
  const called = new Set(served.flatMap(({ backends }) => backends));
  return Object.fromEntries(
    Object.entries(planFile.backends)
      .filter(([name]) => called.has(name))
      .map(([name, backend]) => [
        `backend ${name}`,
        atMostEvery(checkEveryMs, () => checkBackend(agent, backend, apiKeys[name])),
      ]),
  );
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
