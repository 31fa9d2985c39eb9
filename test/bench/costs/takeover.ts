import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { type Stack, startStack } from '../../stack/stack.ts';

const model = 'silent-chat';
const requests = 16;
const rounds = 3;
const lookEveryMs = 20;
const waitMsMax = 60_000;

/**
 * How long the runs of a worker wait, in milliseconds, from its end by SIGKILL until another worker has started each of them again. There
 * are two workers, of which one is killed and replaced in each round, and requests that no backend answers in the meantime.
 */
export async function measureTakeover(): Promise<number[]> {
  await using parts = new AsyncDisposableStack();
  const models = { [model]: { tier: 'guest', pool: 'default', backends: ['onprem-a'] } };
  const stack = parts.use(await startStack({ workers: 2, models, plans: { free: { model_tiers: ['guest'] } } }));
  stack.modelServers[0].fail({ hang: true }, model);
  const key = await stack.mintKey('takeover');
  const taken: number[] = [];
  for (let round = 0; round < rounds; round++) {
    // Kills come at any time of the interval at which workers look for stalled jobs.
    await sleep(2_500 * Math.random());
    taken.push(...(await killOne(stack, key)));
    await stack.startWorker();
  }
  return taken.toSorted((one, other) => one - other);
}

async function killOne({ ingresses, workers, modelServers }: Stack, key: string): Promise<number[]> {
  const [server] = modelServers;
  const earlier = new Set(server.calls().map(({ id }) => id));
  const agent = new Agent({ connections: requests });
  const asking = Array.from({ length: requests }, () =>
    request(`${ingresses[0]?.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'Hello' }] }),
      dispatcher: agent,
    }).catch(() => undefined),
  );
  const callsOf = () =>
    Map.groupBy(
      server.calls().filter(({ id }) => !earlier.has(id)),
      ({ requestId }) => requestId,
    );
  while (callsOf().size < requests) await sleep(lookEveryMs);
  workers.shift()?.process.kill('SIGKILL');
  const killedAt = Date.now();
  // The calls of the killed worker end with its connections.
  const isLost = () => [...callsOf().values()].filter((calls) => calls.some(({ state }) => state !== 'running'));
  await sleep(100);
  const again = () => isLost().flatMap(([, second]) => (second === undefined ? [] : [second.startedAt - killedAt]));
  while (isLost().length === 0 || again().length < isLost().length) {
    if (Date.now() - killedAt > waitMsMax) throw new Error(`after ${waitMsMax} ms a run has not started again`);
    await sleep(lookEveryMs);
  }
  const taken = again();
  await agent.destroy();
  await Promise.all(asking);
  return taken;
}
