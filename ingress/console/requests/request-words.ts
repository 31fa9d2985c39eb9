import type { Request } from '../../routes/present-request.ts';
import type { Tone } from '../page/icons.ts';

/** How a request stands, in a word. */
export function requestState({ state, outcome }: Pick<Request, 'state' | 'outcome'>): { state: string; tone: Tone } {
  if (state !== 'ended' || outcome === null) return { state, tone: 'moving' };
  return { state: outcome, tone: tones[outcome] };
}

const tones: Record<NonNullable<Request['outcome']>, Tone> = {
  completed: 'good',
  failed: 'bad',
  cancelled: 'neutral',
  lost: 'bad',
};

/** What an ending means for the account, in words. */
export const outcomeWords: Record<NonNullable<Request['outcome']>, string> = {
  completed: 'The answer was complete.',
  failed: 'The service answered with an error, or the answer broke off.',
  cancelled:
    'It was ended before its answer was complete: the client disconnected, an operator has ended it, or the account was suspended or the batch ended.',
  lost: 'No process was left to end it. Nothing was charged.',
};

/** A part of the life of a request, in milliseconds from its admission. */
export type Phase = {
  name: string;
  kind: 'queue' | 'wait' | 'answer' | 'attempt' | 'failed';
  fromMs: number;
  toMs: number;
};

/**
 * The timeline of a request: in the queue, until the first token, and until the end; then each call of a model server. Calls are placed one
 * after another from the end of the queue, because only their durations are known. Parts that are not known are left out.
 */
export function phasesOf(request: Pick<Request, 'queue_ms' | 'first_token_ms' | 'duration_ms' | 'attempts'>): Phase[] {
  const { queue_ms: queueMs, first_token_ms: firstTokenMs, duration_ms: durationMs, attempts } = request;
  if (durationMs === null) return [];
  const startedMs = Math.min(queueMs ?? 0, durationMs);
  const begunMs = firstTokenMs === null ? durationMs : clamp(firstTokenMs, startedMs, durationMs);
  const phases: Phase[] = [
    { name: 'Queue', kind: 'queue', fromMs: 0, toMs: startedMs },
    { name: firstTokenMs === null ? 'Answer' : 'First token', kind: 'wait', fromMs: startedMs, toMs: begunMs },
    ...(firstTokenMs === null ? [] : [{ name: 'Answer', kind: 'answer', fromMs: begunMs, toMs: durationMs } as const]),
  ];
  let atMs = startedMs;
  attempts.forEach(({ outcome, location, ms }, index) => {
    const fromMs = Math.min(atMs, durationMs);
    atMs = fromMs + (ms ?? 0);
    phases.push({
      name: `Attempt ${index + 1}${location === null ? '' : `, ${location}`}`,
      kind: outcome === 'answered' ? 'attempt' : 'failed',
      fromMs,
      toMs: Math.min(atMs, durationMs),
    });
  });
  return phases;
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(Math.max(value, least), most);
}
