import { Agent, request } from 'undici';
import type { Stack } from '../stack/stack.ts';
import { lineOf } from '../support/batch-client.ts';
import { models } from './replicas.ts';

/** Sends this many calls directly to both replicas, with as many at once as they have slots. Returns calls a second. */
export async function measureRaw(stack: Stack, { calls, slots }: { calls: number; slots: number }): Promise<number> {
  await using parts = new AsyncDisposableStack();
  const dispatcher = parts.adopt(new Agent({ connections: slots }), (opened) => opened.close());
  const headers = { 'content-type': 'application/json' };
  const startedAt = performance.now();
  let begun = 0;
  await Promise.all(
    Array.from({ length: slots }, async (_, slot) => {
      const url = `${stack.modelServers[slot % 2]?.url}/chat/completions`;
      while (begun++ < calls) {
        const { body: call } = JSON.parse(lineOf(`line-${begun}`, { model: models[0] })) as { body: object }; // our own line
        const { statusCode, body } = await request(url, {
          method: 'POST',
          headers,
          body: JSON.stringify(call),
          dispatcher,
        });
        await body.text();
        if (statusCode !== 200) throw new Error(`a backend answered ${statusCode}`);
      }
    }),
  );
  return (1_000 * calls) / (performance.now() - startedAt);
}
