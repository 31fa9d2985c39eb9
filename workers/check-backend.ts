import type { Agent } from 'undici';
import type { Backend } from '../shared/plan-file.ts';
import { endpointOf } from './backends/call-backend.ts';

const checkTimeoutMs = 1_000;

/** Whether a backend answers `GET /models` with anything below 500. */
export async function checkBackend(agent: Agent, backend: Backend, apiKey: string | undefined): Promise<void> {
  const { statusCode, body } = await agent.request({
    ...endpointOf(backend, '/models'),
    method: 'GET',
    headers: apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` },
    signal: AbortSignal.timeout(checkTimeoutMs),
  });
  await body.dump();
  if (statusCode >= 500) throw new Error(`the backend answered ${statusCode}`);
}
