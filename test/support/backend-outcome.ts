import { countTokens } from '../../workers/failover/count-tokens.ts';
import { chargedPrompt } from './charged-prompt.ts';
import type { ChatEnding } from './chat-ending.ts';

/** Longer than any answer takes, on a busy machine as well. */
export const patienceMs = 120_000;

/** Complete responses are requested as a stream and assembled, unless they may contain audio, whose streams have another format. */
export const ways = { streamed: { stream: true }, whole: {}, 'as it came': { modalities: ['text', 'audio'] } };
export type Way = keyof typeof ways;
export const everyWay = Object.keys(ways) as Way[]; // these are all keys
/** Used as part of a model's name. */
export const nameOf = (way: Way) => way.replaceAll(' ', '-');

/**
 * The result of a fault of one backend. `attempt` is the recorded outcome of its call. `moves on`: another backend is called, or none is
 * left (`isPaused`: this one is not called for 30 s). `isTimed`: a time limit ends the call. `waits`: another backend is called, or the
 * request waits for this one. `is elsewhere`: another backend is called, or none has the route. `breaks off`: the client already has a
 * part. `runs out`: the deadline ends the call, which counts against the backend only if it had sent nothing until then (`isSilent`). `is
 * refused`: the request is invalid. `is too large`: so is its answer, and it is unknown how much was produced.
 */
export type Outcome =
  | { what: 'moves on'; attempt: string; isPaused?: boolean; isTimed?: boolean }
  | { what: 'waits'; attempt: 'busy' | 'loading' }
  | { what: 'is elsewhere'; attempt: 'not_offered'; status: number }
  | { what: 'breaks off'; attempt: string; isTimed?: boolean }
  | { what: 'answers'; counted: 'reported' | 'estimated' }
  | { what: 'runs out'; isSilent?: boolean }
  | { what: 'is refused'; status: number }
  | { what: 'is too large' };

/** One way to call a model whose first backend has a fault. The second, if there is one, has none. */
export type Case = { model: string; backends: string[]; way: Way; outcome: Outcome };

/**
 * The name of the first backend of a case. A pause is for all models of a backend, and one that is silent while others get tokens is busy:
 * so each such case has a backend of its own, at the first model server.
 */
export function firstBackendOf(outcome: Outcome, name: string): string {
  const isOwn = outcome.what === 'waits' || endsInTime(outcome) || (outcome.what === 'moves on' && outcome.isPaused);
  return isOwn ? `onprem-a-${name}` : 'onprem-a';
}

/** The model server of a backend. */
export const serverOf = (backend: string) => (backend.startsWith('onprem-a') ? 'onprem-a' : backend);

export const exhausted = (attempted: string[]): ChatEnding => ({
  ...{ kind: 'error', status: 503, code: 'UPSTREAMS_EXHAUSTED', tier: 'guest' },
  attempted,
});

/** The result for the client: the complete answer after a failover, otherwise the error. */
export function endingOf({ backends, way, outcome }: Case): ChatEnding {
  switch (outcome.what) {
    case 'answers':
      return { kind: 'answer' };
    case 'is elsewhere':
      // What no backend implements is the client's mistake.
      if (backends.length === 1 && outcome.status === 501)
        return { kind: 'error', status: 400, code: 'VALIDATION_ERROR' };
      return backends.length > 1 ? { kind: 'answer' } : exhausted(backends);
    case 'moves on':
    case 'waits':
      return backends.length > 1 ? { kind: 'answer' } : exhausted(backends);
    case 'breaks off':
      return { kind: 'part', code: 'UPSTREAM_INTERRUPTED' };
    case 'runs out':
      if (way === 'streamed') return { kind: 'part', code: 'DEADLINE_EXCEEDED' };
      return { kind: 'error', status: 504, code: 'DEADLINE_EXCEEDED' };
    case 'is refused':
      if (outcome.status === 413) return { kind: 'error', status: 413, code: 'PAYLOAD_TOO_LARGE' };
      return { kind: 'error', status: 400, code: 'VALIDATION_ERROR' };
    case 'is too large':
      return { kind: 'error', status: 400, code: 'VALIDATION_ERROR' };
  }
}

/** The attempts in order, with their outcomes. If all backends fail there is one more round. */
export function attemptsOf({ backends: [first = '', second], outcome }: Case): [backend: string, how: string][] {
  switch (outcome.what) {
    case 'answers':
      return [[first, 'answered']];
    case 'moves on':
    case 'waits':
    case 'is elsewhere': {
      const failed: [string, string] = [first, outcome.attempt];
      if (second !== undefined) return [failed, [second, 'answered']];
      return outcome.what === 'moves on' && !outcome.isPaused ? [failed, failed] : [failed];
    }
    case 'breaks off':
      return [[first, outcome.attempt]];
    case 'runs out':
      return [[first, 'stopped']];
    case 'is refused':
      return [[first, 'refused']];
    case 'is too large':
      return [[first, 'too_large']];
  }
}

/** Whether the failure counts against the backend, if requests of two accounts have it. */
export const fails = (outcome: Outcome) =>
  outcome.what === 'moves on' ||
  outcome.what === 'breaks off' ||
  (outcome.what === 'runs out' && outcome.isSilent === true);

/** Whether a time limit ends the call. */
export const endsInTime = (outcome: Outcome) =>
  outcome.what === 'runs out' || ('isTimed' in outcome && outcome.isTimed === true);

/** Of the models of a stack. */
const outputTokensMax = 4_096;

type Tokens = { promptTokens: number; completionTokens: number };
type Got = { text: string; request: { model?: unknown }; reported: Tokens };

/** The expected charge: reported usage for an answer, the delivered text for a part of one, nothing for an error. */
export async function chargeOf({ outcome }: Case, { text, request, reported }: Got) {
  const promptTokens = await chargedPrompt({ endpoint: '/v1/chat/completions', request });
  if (outcome.what === 'is too large') return { promptTokens, completionTokens: outputTokensMax, counted: 'estimated' };
  if (text === '') return { promptTokens: 0, completionTokens: 0, counted: 'estimated' };
  const movesOn = ['moves on', 'waits', 'is elsewhere'].includes(outcome.what);
  const isReported = movesOn || (outcome.what === 'answers' && outcome.counted === 'reported');
  if (isReported) return { ...reported, counted: 'reported' };
  return { promptTokens, completionTokens: await countTokens(text), counted: 'estimated' };
}
