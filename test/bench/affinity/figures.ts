import type { Books } from '../gateways/gateway.ts';
import { at } from '../offer.ts';
import { cachedShare, idealOf, type PromptCount } from './ideal.ts';
import type { SentRequest } from './run-traffic.ts';
import type { ServerCall } from './start-model-servers.ts';

/** Figures of one variant in one round. */
export interface AffinityFigures {
  /** Cached tokens, as a share of all prompt tokens; and of the turns of chats only. */
  readonly cached: number;
  readonly cachedOfTurns: number;
  /** The same of one server with an unlimited cache. */
  readonly ideal: number;
  readonly idealOfTurns: number;
  readonly firstTokenP50Ms: number;
  readonly firstTokenP99Ms: number;
  /** The most loaded server relative to the mean: by calls, and by the time that its calls took. */
  readonly mostCalls: number;
  readonly mostTime: number;
  /** The most calls that one server had at once. */
  readonly atOnce: number;
  /** Turns that another server answered than the turn before. */
  readonly moved: number;
  readonly failed: number;
  /** The first of the failures. */
  readonly failure: string | undefined;
  /** The mean share of the slots that were in use from the first call to the last. */
  readonly slots: number;
  readonly seconds: number;
  /** The share of the machine's time that was not idle, and the share used by other processes than these. */
  readonly cpu: number;
  readonly othersCpu: number;
  /** The processor time of each kind of process, in milliseconds a request. */
  readonly cpuMs: Readonly<Record<string, number>>;
  readonly books: Books | undefined;
}

type Evidence = {
  sent: readonly SentRequest[];
  calls: readonly ServerCall[];
  servers: number;
  slotsEach: number;
};

export function figuresOf(evidence: Evidence): Omit<AffinityFigures, 'cpu' | 'othersCpu' | 'cpuMs' | 'books'> {
  const { sent, calls, servers, slotsEach } = evidence;
  const ideal = idealOf(sent);
  const isTurn = turnsIn(sent);
  const turnCalls = calls.filter(({ index }) => isTurn.has(index));
  const firstTokens = sent.flatMap(({ firstTokenMs }) => firstTokenMs ?? []).toSorted((one, other) => one - other);
  const failures = sent.flatMap(({ failure }) => failure ?? []);
  const begunAt = Math.min(...calls.map(({ startedAt }) => startedAt));
  const endedAt = Math.max(...calls.map((call) => call.endedAt));
  const timeMs = calls.reduce((sum, call) => sum + timeOf(call), 0);
  return {
    cached: cachedShare(calls),
    cachedOfTurns: cachedShare(turnCalls),
    ideal: cachedShare([...ideal.values()]),
    idealOfTurns: cachedShare(ofTurns(ideal, isTurn)),
    firstTokenP50Ms: at(firstTokens, 0.5),
    firstTokenP99Ms: at(firstTokens, 0.99),
    mostCalls: mostOf(calls, servers, () => 1),
    mostTime: mostOf(calls, servers, timeOf),
    atOnce: Math.max(...calls.map((call) => call.atOnce)),
    moved: movesOf(sent, calls).filter(({ from, to }) => from !== to).length,
    failed: failures.length,
    failure: failures[0],
    slots: timeMs / (servers * slotsEach * (endedAt - begunAt)),
    seconds: (endedAt - begunAt) / 1_000,
  };
}

/** Two turns in a row of one chat: which server answered each, and when the later one was sent. */
export interface Move {
  readonly from: number;
  readonly to: number;
  readonly sentAt: number;
}

export function movesOf(sent: readonly SentRequest[], calls: readonly ServerCall[]): Move[] {
  const serverOf = new Map(calls.map(({ index, server }) => [index, server]));
  const chats = Map.groupBy(sent, ({ chat }) => chat);
  chats.delete(undefined);
  return [...chats.values()].flatMap((turns) =>
    turns.flatMap(({ index, sentAt }, turn) => {
      const from = serverOf.get(turns[turn - 1]?.index ?? Number.NaN);
      const to = serverOf.get(index);
      return from === undefined || to === undefined ? [] : [{ from, to, sentAt }];
    }),
  );
}

/** The load of the most loaded server, relative to the mean of all. */
export function mostOf(calls: readonly ServerCall[], servers: number, loadOf: (call: ServerCall) => number): number {
  const loads = new Array<number>(servers).fill(0);
  for (const call of calls) loads[call.server] = (loads[call.server] ?? 0) + loadOf(call);
  const all = loads.reduce((sum, each) => sum + each, 0);
  return Math.max(...loads) / (all / servers);
}

function timeOf({ startedAt, endedAt }: ServerCall): number {
  return endedAt - startedAt;
}

function turnsIn(sent: readonly SentRequest[]): Set<number> {
  return new Set(sent.flatMap(({ index, chat }) => (chat === undefined ? [] : [index])));
}

function ofTurns(counts: ReadonlyMap<number, PromptCount>, isTurn: ReadonlySet<number>): PromptCount[] {
  return [...counts].flatMap(([index, count]) => (isTurn.has(index) ? [count] : []));
}
