import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { busyShare, machineTicks, usageOf } from '../processes.ts';
import { type AffinityFigures, figuresOf, movesOf } from './figures.ts';
import { runTraffic } from './run-traffic.ts';
import { startModelServers } from './start-model-servers.ts';
import { makeTraffic, type TrafficSizes } from './traffic.ts';
import { startVariant, type Variant } from './variants.ts';

const servers = 8;
export const slotsEach = 8;
/** The cache of each server, as a share of the tokens of all finished chats. */
const cacheShare = 1 / 5;
/** 1,500 tokens that are not cached take 400 ms, an answer of 90 tokens 90 ms. Tokens are sent in groups, which costs less here. */
const speed = { firstTokenMs: 20, tokensPerSecond: 1_000, tokensPerWrite: 16 };
const uncachedTokensPerSecond = 3_750;

export const usualSizes: TrafficSizes = { chats: 400, turns: 10, oneOffShare: 0.25, sharedTokens: 0, spanMs: 52_000 };
export const sharedSizes: TrafficSizes = { ...usualSizes, sharedTokens: 2_000 };

type Place = { directory: string };
type Options = { variant: Variant; seed: number; sizes: TrafficSizes };

/** Measures one variant with fresh servers. */
export async function measureVariant(options: Options, place: Place): Promise<AffinityFigures> {
  return (await runVariant(options, place)).figures;
}

export interface Leaving {
  /** Turns in the time after the change whose turn before was at another server than the leaving one. */
  readonly turns: number;
  /** Those of them that another server answered than the turn before. */
  readonly moved: number;
  /** Calls of the leaving server in that time. */
  readonly callsOfLeaving: number;
  readonly failed: number;
}

const leavingServer = 2;
const watchedMs = 15_000;

/** Measures which chats move in the middle of a run, with a server that leaves then, or without. */
export async function measureLeaving(
  { leaves, ...options }: Options & { leaves: boolean },
  place: Place,
): Promise<Leaving> {
  const { begunAt, sent, calls } = await runVariant({ ...options, leaves }, place);
  const isWatched = (time: number) => time >= begunAt && time < begunAt + watchedMs;
  const turns = movesOf(sent, calls).filter(({ from, sentAt }) => from !== leavingServer && isWatched(sentAt));
  return {
    turns: turns.length,
    moved: turns.filter(({ from, to }) => from !== to).length,
    callsOfLeaving: calls.filter(({ server, startedAt }) => server === leavingServer && isWatched(startedAt)).length,
    failed: sent.filter(({ failure }) => failure !== undefined).length,
  };
}

/** `begunAt`: when the server has left, or would have. */
async function runVariant({ variant, seed, sizes, leaves }: Options & { leaves?: boolean }, place: Place) {
  const traffic = makeTraffic(seed, sizes);
  await using parts = new AsyncDisposableStack();
  const modelServers = parts.use(
    await startModelServers({
      ...{ count: servers, slots: slotsEach, ...speed },
      prefixCache: { tokensMax: Math.round(traffic.tokens * cacheShare), uncachedTokensPerSecond },
    }),
  );
  const shared = sizes.sharedTokens === 0 ? '' : (traffic.oneOffs[0]?.messages[0]?.content ?? '');
  const started = parts.use(
    await startVariant(variant, {
      ...{ ...place, slotsEach, backends: modelServers.urls, sharedCharacters: shared.length },
      calls: modelServers.calls,
    }),
  );
  const change = async () => (leaves ? started.removeBackend?.(leavingServer) : undefined);
  const groups = { ...(await started.processes()), 'model servers': [modelServers.pid], clients: [process.pid] };
  const stop = await watchProcessors(groups);
  const [sent, begunAt] = await Promise.all([
    runTraffic({ url: started.urls[0] ?? '', headers: started.headers }, traffic),
    sleep(sizes.spanMs / 2)
      .then(change)
      .then(Date.now),
  ]);
  const used = await stop(sent.length);
  await started.drained?.();
  const books = await started.books?.();
  const calls = await modelServers.calls();
  return { figures: { ...figuresOf({ sent, calls, servers, slotsEach }), ...used, books }, sent, calls, begunAt };
}

/** Returns a function that returns the processor time since then, in milliseconds a request, and of the complete machine. */
async function watchProcessors(groups: Record<string, readonly number[]>) {
  const [before, ticksBefore, startedAt] = [await usageOf(groups), await machineTicks(), performance.now()];
  return async function stop(requests: number) {
    const [after, ticksAfter] = [await usageOf(groups), await machineTicks()];
    const machineMs = (performance.now() - startedAt) * availableParallelism();
    const used = Object.entries(after).map(([name, { cpuSeconds }]) => {
      return [name, 1_000 * (cpuSeconds - (before[name]?.cpuSeconds ?? 0))] as const;
    });
    const cpu = busyShare(ticksBefore, ticksAfter);
    return {
      cpu,
      othersCpu: cpu - used.reduce((sum, [, ms]) => sum + ms, 0) / machineMs,
      cpuMs: Object.fromEntries(used.map(([name, ms]) => [name, ms / requests])),
    };
  };
}
