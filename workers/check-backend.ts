import type { Agent } from 'undici';
import type { Backend } from '../shared/plan-file.ts';

const checkTimeoutMs = 1_000;

/** Whether a backend answers `GET /models` with anything below 500. */
export async function checkBackend(agent: Agent, { url }: Backend, apiKey: string | undefined): Promise<void> {
  const { origin, pathname } = new URL(url);
  const { statusCode, body } = await agent.request({
    origin,
    path: `${pathname.replace(/\/$/, '')}/models`,
    method: 'GET',
    headers: apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` },
    signal: AbortSignal.timeout(checkTimeoutMs),
  });
  await body.dump();
  if (statusCode >= 500) throw new Error(`the backend answered ${statusCode}`);
}
