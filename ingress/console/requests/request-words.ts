import type { Request } from '../../routes/present-request.ts';
import type { Tone } from '../page/icons.ts';
import type { ShownAttempt } from './attempt-words.ts';

type Result = Pick<Request, 'state' | 'outcome' | 'status' | 'code'>;

/** How a request stands: the status and code of its error, else its outcome. In a stream that had begun, an error has no status. */
export function resultWords({ state, outcome, status, code }: Result): string {
  if (state !== 'ended' || outcome === null) return state;
  if (code === null) return outcome;
  return status === null || status === 200 ? code : `${status} ${code}`;
}

export function requestState(request: Result): { state: string; tone: Tone } {
  const { state, outcome } = request;
  return { state: resultWords(request), tone: state !== 'ended' || outcome === null ? 'moving' : tones[outcome] };
}

const tones: Record<NonNullable<Request['outcome']>, Tone> = {
  completed: 'good',
  failed: 'bad',
  cancelled: 'neutral',
  lost: 'bad',
};

/** A part of the life of a request, in milliseconds from its admission. */
export type Phase = {
  name: string;
  kind: 'queue' | 'wait' | 'answer' | 'attempt' | 'failed' | 'end';
  fromMs: number;
  toMs: number;
};

type RequestTimes = Pick<Request, 'status' | 'code' | 'queue_ms' | 'first_token_ms' | 'duration_ms'> & {
  attempts: readonly ShownAttempt[];
};

/**
 * The timeline of a request: in the queue, each call of a model server, until the first token, the answer, and its error. Calls are placed
 * one after another from the end of the queue, because only their durations are known. Parts that are not known are left out.
 */
export function phasesOf({ status, code, attempts, ...times }: RequestTimes): Phase[] {
  const { queue_ms: queueMs, first_token_ms: firstTokenMs, duration_ms: durationMs } = times;
  if (durationMs === null) return [];
  // No worker took it: all of its time was in the queue.
  const wasTaken = queueMs !== null || attempts.length > 0 || firstTokenMs !== null;
  const startedMs = wasTaken ? Math.min(queueMs ?? 0, durationMs) : durationMs;
  const phases: Phase[] = [{ name: 'Queue', kind: 'queue', fromMs: 0, toMs: startedMs }];
  let atMs = startedMs;
  attempts.forEach(({ outcome, location, backend, ms }, index) => {
    const fromMs = Math.min(atMs, durationMs);
    atMs = fromMs + (ms ?? 0);
    const name = `${index + 1} ${backend ?? location ?? 'model server'}`;
    const kind = outcome === 'answered' ? 'attempt' : outcome === 'stopped' ? 'wait' : 'failed';
    phases.push({ name, kind, fromMs, toMs: Math.min(atMs, durationMs) });
  });
  if (firstTokenMs !== null) {
    const begunMs = clamp(firstTokenMs, startedMs, durationMs);
    phases.push({ name: 'First token', kind: 'wait', fromMs: startedMs, toMs: begunMs });
    phases.push({ name: 'Answer', kind: 'answer', fromMs: begunMs, toMs: durationMs });
  }
  if (code !== null)
    phases.push({
      name: `${status === null || status === 200 ? 'Error' : status} sent`,
      kind: 'end',
      fromMs: durationMs,
      toMs: durationMs,
    });
  return phases;
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(Math.max(value, least), most);
}
