import { isObject } from '../../is-object.ts';

/** A longer id is left out of usage records, in which it is looked up. */
const lengthMax = 200;

/** Returns the id in an answer of a backend. Undefined if it has none, and the client gets one that is made of the request's id. */
export function answerIdIn(answer: unknown): string | undefined {
  const id = isObject(answer) ? answer.id : undefined;
  return typeof id === 'string' && id !== '' && id.length <= lengthMax ? id : undefined;
}
