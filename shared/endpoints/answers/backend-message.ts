import { z } from 'zod';
import type { StreamOptions } from '../definition/answer-format.ts';
import { BackendError } from './backend-error.ts';

/** A backend's own error, in a body or in an event of a stream, in one of the shapes that model servers use. */
const backendErrorSchema = z.union([
  z.looseObject({ error: z.looseObject({ message: z.string() }) }).transform(({ error }) => error.message),
  z.looseObject({ error: z.string() }).transform(({ error }) => error),
  z.looseObject({ message: z.string() }).transform(({ message }) => message),
  z.looseObject({ detail: z.string() }).transform(({ detail }) => detail),
]);

/** Returns the message of a backend's own error, as it wrote it. Undefined if the value is no such error. */
export function backendMessageIn(value: unknown): string | undefined {
  return backendErrorSchema.safeParse(value).data;
}

/** The error of a backend that reports a failure in its stream. */
export function brokenOff(message: string, relay: StreamOptions['relay']): BackendError {
  return new BackendError('interrupted', relay(message) || 'the backend broke off with an error');
}
