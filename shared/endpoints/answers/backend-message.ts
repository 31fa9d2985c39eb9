import { z } from 'zod';

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
