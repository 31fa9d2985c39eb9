import { isObject } from '../../is-object.ts';
import type { BackendAnswer } from './convert-answer.ts';

/** The chunks of a stream that say what a whole answer says: one with all of it, and one with its usage. */
export function wholeAsChunks({ answer }: BackendAnswer): string[] {
  const { object: _, choices, usage, ...head } = answer;
  const parts = choices.map(({ message, ...choice }, index) => ({
    index,
    ...choice,
    ...(message !== undefined && { delta: withNumberedCalls(message) }),
  }));
  const counted = usage === undefined ? [] : [{ ...head, choices: [], usage }];
  return [{ ...head, choices: parts }, ...counted].map((chunk) => JSON.stringify(chunk));
}

/** A whole answer does not number them. */
function withNumberedCalls(message: Readonly<Record<string, unknown>>): object {
  const { tool_calls: calls } = message;
  if (!Array.isArray(calls)) return message;
  return { ...message, tool_calls: calls.map((call, index) => (isObject(call) ? { index, ...call } : call)) };
}
