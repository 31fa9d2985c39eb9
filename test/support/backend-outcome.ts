import { countPromptTokens, countTokens } from '../../workers/chat-answers/count-tokens.ts';
import type { Ending } from './chat-ending.ts';

/** Whole answers are asked for as a stream and put together, unless they may be sound, which a stream has in another format. */
export const ways = { streamed: { stream: true }, whole: {}, 'as it came': { modalities: ['text', 'audio'] } };
export type Way = keyof typeof ways;
export const everyWay = Object.keys(ways) as Way[]; // it has no others
/** As a part of a model's name. */
export const nameOf = (way: Way) => way.replaceAll(' ', '-');

/**
 * What a fault of one backend leads to; `attempt` is how its call is told. `moves on`: another is asked, or there is none
 * (`pauses`: it asked to be left alone); `breaks off`: the client has a part already; `runs out`: the deadline ends it, which
 * shows nothing of the backend unless that had said nothing until then (`isSilent`); `is refused`: the request is at fault.
 */
export type Outcome =
  | { what: 'moves on'; attempt: string; pauses?: boolean }
  | { what: 'breaks off'; attempt: string }
  | { what: 'answers'; counted: 'reported' | 'estimated' }
  | { what: 'runs out'; isSilent?: boolean }
  | { what: 'is refused' };

/** One way to ask for a model whose first backend has a fault; the second, if there is one, has none. */
export type Case = { model: string; backends: string[]; way: Way; outcome: Outcome };

export const exhausted = (attempted: string[]): Ending => ({
  ...{ kind: 'error', status: 503, code: 'UPSTREAMS_EXHAUSTED', tier: 'guest' },
  attempted,
});

/** What the client gets: a failover that it never knows of, else the truth. */
export function endingOf({ backends, way, outcome }: Case): Ending {
  switch (outcome.what) {
    case 'answers':
      return { kind: 'answer' };
    case 'moves on':
      return backends.length > 1 ? { kind: 'answer' } : exhausted(backends);
    case 'breaks off':
      return { kind: 'part', code: 'UPSTREAM_INTERRUPTED' };
    case 'runs out':
      if (way === 'streamed') return { kind: 'part', code: 'DEADLINE_EXCEEDED' };
      return { kind: 'error', status: 504, code: 'DEADLINE_EXCEEDED' };
    case 'is refused':
      return { kind: 'error', status: 400, code: 'VALIDATION_ERROR' };
  }
}

/** Each call of a backend, in their order, and how it went: where all have failed there is one more round. */
export function attemptsOf({ backends: [first = '', second], outcome }: Case): [backend: string, how: string][] {
  switch (outcome.what) {
    case 'answers':
      return [[first, 'completed']];
    case 'moves on': {
      const failed: [string, string] = [first, outcome.attempt];
      if (second !== undefined) return [failed, [second, 'completed']];
      // Whoever asked to be left alone is not called again.
      return outcome.pauses ? [failed] : [failed, failed];
    }
    case 'breaks off':
      return [[first, outcome.attempt]];
    case 'runs out':
      return [[first, 'stopped']];
    case 'is refused':
      return [[first, 'refused_request']];
  }
}

/** Whether the backend is at fault. */
export const fails = (outcome: Outcome) =>
  outcome.what === 'moves on' ||
  outcome.what === 'breaks off' ||
  (outcome.what === 'runs out' && outcome.isSilent === true);

type Tokens = { promptTokens: number; completionTokens: number };
type Got = { text: string; messages: object[]; reported: Tokens };

/** What is charged: an answer as its backend reports it, a part of one by what the client has of it, an error nothing. */
export async function chargeOf({ outcome }: Case, { text, messages, reported }: Got) {
  if (text === '') return { promptTokens: 0, completionTokens: 0, counted: 'estimated' };
  const isReported = outcome.what === 'moves on' || (outcome.what === 'answers' && outcome.counted === 'reported');
  if (isReported) return { ...reported, counted: 'reported' };
  const promptTokens = await countPromptTokens(JSON.stringify({ messages }));
  return { promptTokens, completionTokens: await countTokens(text), counted: 'estimated' };
}
