import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { type Stack, startStack } from '../stack/stack.ts';
import { linesOf, openBatchClient } from '../support/batch-client.ts';
import { unlimitedKey } from '../support/load.ts';
import type { Fleet } from './comparison/results.ts';
import { callsOf } from './costs/idle.ts';
import type { Target } from './measure.ts';
import { offer } from './offer.ts';

const workerCounts = [1, 10, 50] as const;
const modelCounts = [5, 50] as const;
const requestsPerSecond = 50;
const openAccounts = 200;
const linesEach = 20;
const slots = 100;
/** Until partitions are distributed again, and batches have their workers. */
const settleMs = 20_000;
/** The number of the three models that every stack has. */
const silentModel = 'large-chat';

/**
 * Measures how many commands Redis carries out per second for one ingress and this many workers, including commands of scripts: without
 * requests, with 50 requests a second, and with 200 accounts whose batches wait for a backend that does not answer.
 */
export async function measureFleet({ seconds }: { seconds: number }): Promise<Fleet> {
  await using stack = await startStack({
    timeouts: { first_token_ms: 600_000 },
    models: { fast: modelOn('onprem-a'), [silentModel]: modelOn('cloud') },
    backends: { 'onprem-a': { requests_at_once: slots }, cloud: { requests_at_once: 1 } },
    modelServers: { firstTokenMs: 20 },
  });
  stack.modelServers[2].fail({ hang: true });
  const target = await targetOf(stack);
  const fleet: Fleet = { workers: [], models: [] };
  for (const workers of workerCounts) {
    await haveWorkers(stack, workers);
    const idle = await commandsPerSecond(stack, seconds);
    const loaded = await underLoad(stack, { target, seconds });
    fleet.workers.push({ workers, idle, loaded, openBatches: 0 });
    console.error(`fleet: ${workers} workers, idle ${idle.toFixed(0)} commands a second, loaded ${loaded.toFixed(0)}`);
  }
  await openBatches(stack);
  for (const figures of fleet.workers.toReversed()) {
    await haveWorkers(stack, figures.workers);
    figures.openBatches = await commandsPerSecond(stack, seconds);
    console.error(`fleet: ${figures.workers} workers, batches ${figures.openBatches.toFixed(0)} commands a second`);
  }
  for (const models of modelCounts) fleet.models.push(await ofModels(models, seconds));
  return fleet;
}

const modelOn = (backend: string) => ({ tier: 'guest', pool: 'default', backends: [backend] });

async function haveWorkers(stack: Stack, count: number): Promise<void> {
  while (stack.workers.length < count) await stack.startWorker();
  await Promise.all(stack.workers.splice(count).map(({ process }) => process.stop()));
  await sleep(settleMs);
}

async function commandsPerSecond({ redisUrl }: Stack, seconds: number): Promise<number> {
  const redis = new Redis(redisUrl);
  try {
    const [before, begun] = [await callsOf(redis), performance.now()];
    await sleep(seconds * 1_000);
    return (sum(await callsOf(redis)) - sum(before)) / ((performance.now() - begun) / 1_000);
  } finally {
    redis.disconnect();
  }
}

async function targetOf(stack: Stack): Promise<Target> {
  return {
    url: `${stack.ingresses[0]?.url}/v1/chat/completions`,
    headers: { 'content-type': 'application/json', authorization: `Bearer ${await unlimitedKey(stack, 'busy')}` },
    body: JSON.stringify({ model: 'fast', max_tokens: 5, messages: [{ role: 'user', content: 'Hello' }] }),
  };
}

async function underLoad(stack: Stack, { target, seconds }: { target: Target; seconds: number }): Promise<number> {
  const offering = offer(target, { perSecond: requestsPerSecond, seconds: seconds + 2 });
  await sleep(1_000);
  const commands = await commandsPerSecond(stack, seconds);
  const failed = (await offering).answers.filter(({ status }) => status !== 200);
  if (failed.length > 0) throw new Error(`${failed.length} requests were not answered`);
  return commands;
}

async function openBatches(stack: Stack): Promise<void> {
  for (let index = 0; index < openAccounts; index++) {
    const user = await openBatchClient(stack, `batch-user-${index}`);
    await user.create(linesOf(linesEach, { model: silentModel }));
  }
}

/** An additional worker beside one that has as many models. */
async function ofModels(count: number, seconds: number): Promise<Fleet['models'][number]> {
  const names = Array.from({ length: count - 3 }, (_, index) => `model-${index + 1}`);
  await using stack = await startStack({
    models: Object.fromEntries(names.map((name) => [name, modelOn('onprem-a')])),
  });
  await haveWorkers(stack, 1);
  const before = { commands: await commandsPerSecond(stack, seconds), connections: await connectionsOf(stack) };
  await haveWorkers(stack, 2);
  const commands = (await commandsPerSecond(stack, seconds)) - before.commands;
  return { models: count, commands, connections: (await connectionsOf(stack)) - before.connections };
}

async function connectionsOf({ redisUrl }: Stack): Promise<number> {
  const redis = new Redis(redisUrl);
  try {
    return Number(/^connected_clients:(\d+)/m.exec(await redis.info('clients'))?.[1]);
  } finally {
    redis.disconnect();
  }
}

function sum(calls: Record<string, number>): number {
  return Object.values(calls).reduce((total, each) => total + each, 0);
}
