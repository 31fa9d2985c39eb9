import type { Batch, BatchRetry } from '../../shared/batches/batch.ts';
import { isRunning } from '../../shared/batches/batch-states.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { NextLine, RefusedNextLine } from './files/batch-feed.ts';
import { hasRoom, type LineInProgress } from './line-window.ts';
import type { LineEvent } from './lines/line-events.ts';
import { isUnavailable, type ModelHealth, withAnswer, withFailure, withProbe } from './model-health.ts';

/** The running batches of one account, in the order in which they take turns. `plan` is undefined until it was read. */
export type AccountState = {
  plan: { name: string; suspended: boolean } | undefined;
  batches: ReadonlyMap<string, BatchState>;
  health: ModelHealth;
};

/** `isUncounted`: a line has ended since the results were counted. `lines` are those in progress. */
type BatchState = { batch: Batch; isUncounted: boolean; lines: ReadonlyMap<number, LineInProgress> };

/**
 * `listed`: the account's batches that are in progress in the store; `account read`: its plan, and the same batches; `opened`: a batch has
 * its feed; `queued`: a line is about to be added to its queue; `not queued`: that failed, or the line is refused and could not be ended;
 * `rejected`: a refused line has its result; `line`: an event of a worker; `check lines`: lines without a recent event must be looked up;
 * `recovered`: a line has no job any more, and either a retry or a result; `check count`: a batch must be counted if that can change
 * anything (`isDone`: its feed has no line left); `counted`: how that ended.
 */
export type AccountEvent =
  | { type: 'listed'; running: readonly Batch[] }
  | { type: 'account read'; plan: { name: string; suspended: boolean }; running: readonly Batch[] }
  | { type: 'opened'; batch: Batch }
  | { type: 'queued'; batch: string; line: NextLine; now: number }
  | { type: 'not queued'; batch: string; line: NextLine | RefusedNextLine; now: number }
  | { type: 'rejected'; batch: string; line: number }
  | { type: 'line'; event: LineEvent; now: number }
  | { type: 'check lines'; batch: string; now: number }
  | { type: 'recovered'; batch: string; line: LineInProgress; retry: BatchRetry | undefined }
  | { type: 'check count'; batch: string; isDone: boolean; now: number }
  | { type: 'counted'; batch: string; counted: CountOutcome };

/** `ran`: every line has a result; `mistaken`: the feed has no line left, but some lines have no result. */
export type CountOutcome = 'running' | 'ran' | 'mistaken';

/** What an event requires. `refresh if done` applies if the feed of the batch has no line left. */
export type AccountAction =
  | { do: 'open'; batch: Batch }
  | { do: 'close'; batch: string }
  | { do: 'retry line'; batch: string; retry: BatchRetry }
  | { do: 'end line'; batch: string; line: number }
  | { do: 'wake'; model: string; now: number }
  | { do: 'recover lines'; batch: Batch; plan: string; lines: readonly LineInProgress[] }
  | { do: 'count'; batch: Batch; now: number }
  | { do: 'refresh soon' }
  | { do: 'refresh if done'; batch: string };

type Transition = { state: AccountState; actions: readonly AccountAction[] };

export const initialAccountState: AccountState = { plan: undefined, batches: new Map(), health: new Map() };

/** Lines without an event for this long are looked up. */
const silentMs = 2_000;
/** The first batches of an account, by submission. Each reads its own file. */
const batchesAtOnce = 32;
/** A line that could not be queued is tried again after this pause. */
const unqueuedPauseMs = 1_000;

/**
 * Returns the state after an event, and the actions to perform, in order. Events of batches and requests that are not held change nothing.
 */
export function reduceAccount(state: AccountState, event: AccountEvent): Transition {
  switch (event.type) {
    case 'listed':
      return keepOnly(state, new Set(event.running.map(({ id }) => id)));
    case 'account read':
      return hold({ ...state, plan: event.plan }, event.running);
    case 'line':
      return onLine(state, event.event, event.now);
    case 'opened': {
      const opened = { batch: event.batch, isUncounted: true, lines: new Map() };
      return nextOf({ ...state, batches: new Map(state.batches).set(event.batch.id, opened) });
    }
    default: {
      const held = state.batches.get(event.batch);
      return held === undefined ? nextOf(state) : onBatch(state, held, event);
    }
  }
}

/** Whether one more line may be queued. */
export function mayQueueMore(state: AccountState, plans: PlanFile['plans'], now: number): boolean {
  if (state.plan === undefined || state.plan.suspended) return false;
  const atOnce = plans[state.plan.name]?.batchRequestsAtOnce;
  return hasRoom({ inProgress: linesInProgress(state), atOnce, now });
}

export function linesInProgress({ batches }: AccountState): LineInProgress[] {
  return [...batches.values()].flatMap(({ lines }) => [...lines.values()]);
}

function keepOnly(state: AccountState, ids: ReadonlySet<string>): Transition {
  const gone = [...state.batches.keys()].filter((id) => !ids.has(id));
  const batches = new Map([...state.batches].filter(([id]) => ids.has(id)));
  return nextOf({ ...state, batches }, ...gone.map((batch) => ({ do: 'close' as const, batch })));
}

function hold(state: AccountState, running: readonly Batch[]): Transition {
  const batches = new Map(state.batches);
  const actions: AccountAction[] = [];
  for (const batch of running.filter(isRunning).slice(0, batchesAtOnce)) {
    const held = batches.get(batch.id);
    if (held === undefined) actions.push({ do: 'open', batch });
    else batches.set(batch.id, { ...held, batch });
  }
  return nextOf({ ...state, batches }, ...actions);
}

type OfBatch = Exclude<AccountEvent, { type: 'listed' | 'account read' | 'opened' | 'line' }>;

function onBatch(state: AccountState, held: BatchState, event: OfBatch): Transition {
  const { batch } = held;
  switch (event.type) {
    case 'queued':
      return onQueued(state, held, event);
    case 'not queued': {
      const { line, number, failures, losses } = event.line;
      const retry = {
        batch: batch.id,
        line,
        number,
        failures,
        losses,
        notBefore: new Date(event.now + unqueuedPauseMs),
      };
      // Lines for a queue that does not answer must not keep those of other models waiting.
      const health = 'call' in event.line ? withFailure(state.health, event.line.call.model) : state.health;
      return nextOf({ ...withoutLine(state, held, event.line), health }, { do: 'retry line', batch: batch.id, retry });
    }
    case 'rejected':
      return nextOf(withBatch(state, { ...held, isUncounted: true }), {
        do: 'end line',
        batch: batch.id,
        line: event.line,
      });
    case 'check lines':
      return checkLines(state, held, event.now);
    case 'recovered':
      return onRecovered(state, held, event);
    case 'check count':
      if (!held.isUncounted && !event.isDone) return nextOf(state);
      return nextOf(withBatch(state, { ...held, isUncounted: false }), { do: 'count', batch, now: event.now });
    case 'counted':
      if (event.counted === 'ran') return nextOf(state, { do: 'refresh soon' });
      // The next refresh opens it again, from what is stored.
      return event.counted === 'mistaken' ? without(state, batch.id) : nextOf(state);
  }
}

function onQueued(
  state: AccountState,
  held: BatchState,
  { line: taken, now }: Extract<OfBatch, { type: 'queued' }>,
): Transition {
  const { requestId, customId, line, number, failures, losses, call } = taken;
  const { model, requestedModel } = call;
  const request = { requestId, customId, model, ...(requestedModel !== undefined && { requestedModel }) };
  const queued = { ...request, line, number, failures, losses, since: now, isDoubtful: false };
  const next = withLine(state, held, { ...queued, state: 'queued' });
  return nextOf({ ...next, health: withProbe(state.health, model, now) });
}

function checkLines(state: AccountState, held: BatchState, now: number): Transition {
  const silent = [...held.lines.values()].filter(({ isDoubtful, since }) => isDoubtful || now - since > silentMs);
  if (silent.length === 0) return nextOf(state);
  const lines = silent.map((line) => (line.isDoubtful ? { ...line, isDoubtful: false } : line));
  const checked = withBatch(state, {
    ...held,
    lines: new Map([...held.lines, ...lines.map((line) => [line.line, line] as const)]),
  });
  return nextOf(checked, { do: 'recover lines', batch: held.batch, plan: state.plan?.name ?? '', lines });
}

function onRecovered(
  state: AccountState,
  held: BatchState,
  { line, retry }: Extract<OfBatch, { type: 'recovered' }>,
): Transition {
  if (held.lines.get(line.line)?.number !== line.number) return nextOf(state);
  const batch = held.batch.id;
  const next = withoutLine(state, { ...held, isUncounted: true }, line);
  return nextOf(
    next,
    retry === undefined ? { do: 'end line', batch, line: line.line } : { do: 'retry line', batch, retry },
  );
}

function onLine(state: AccountState, event: LineEvent, now: number): Transition {
  const { batch } = event;
  const held = state.batches.get(batch);
  const line = held?.lines.get(event.line);
  if (held === undefined || line === undefined || line.number !== event.number) return nextOf(state);
  switch (event.type) {
    case 'started':
    case 'postponed':
      return nextOf(withLine(state, held, { ...line, state: event.type, since: now }));
    case 'dropped':
      return nextOf(withLine(state, held, { ...line, isDoubtful: true }));
    case 'retry': {
      const { retry } = event;
      const health = retry.failures > line.failures ? withFailure(state.health, line.model) : state.health;
      return nextOf({ ...withoutLine(state, held, line), health }, { do: 'retry line', batch, retry });
    }
    case 'ended': {
      const next = withoutLine(state, { ...held, isUncounted: true }, line);
      const end = { do: 'end line', batch, line: line.line } as const;
      const refresh = { do: 'refresh if done', batch } as const;
      if (!event.answered) return nextOf(next, end, refresh);
      const wake = isUnavailable(state.health, line.model) ? [{ do: 'wake', model: line.model, now } as const] : [];
      return nextOf({ ...next, health: withAnswer(state.health, line.model) }, end, ...wake, refresh);
    }
  }
}

function nextOf(state: AccountState, ...actions: AccountAction[]): Transition {
  return { state, actions };
}

function without(state: AccountState, batch: string): Transition {
  const others = new Set(state.batches.keys());
  others.delete(batch);
  return keepOnly(state, others);
}

function withBatch(state: AccountState, held: BatchState): AccountState {
  return { ...state, batches: new Map(state.batches).set(held.batch.id, held) };
}

function withLine(state: AccountState, held: BatchState, line: LineInProgress): AccountState {
  return withBatch(state, { ...held, lines: new Map(held.lines).set(line.line, line) });
}

function withoutLine(
  state: AccountState,
  held: BatchState,
  { line, number }: Pick<LineInProgress, 'line' | 'number'>,
): AccountState {
  const lines = new Map(held.lines);
  if (lines.get(line)?.number === number) lines.delete(line);
  return withBatch(state, { ...held, lines });
}
