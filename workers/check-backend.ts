import type { Agent } from 'undici';
import type { Backend } from '../shared/plan-file.ts';

const checkEveryMs = 10_000;
const checkTimeoutMs = 1_000;

type Parts = { agent: Agent; backend: Backend; apiKey: string | undefined; now: () => number };

/** Whether a backend answers `GET /models` with anything below 500; asked at most every ten seconds, however many look. */
export function createBackendCheck({ agent, backend, apiKey, now }: Parts): () => Promise<void> {
  let checked: { at: number; result: Promise<void> } | undefined;
  const { origin, pathname } = new URL(backend.url);

  async function ask(): Promise<void> {
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

  return function checkBackend() {
    if (checked === undefined || now() - checked.at > checkEveryMs) checked = { at: now(), result: ask() };
    checked.result.catch(() => {});
    return checked.result;
  };
}
