import { z } from 'zod';

const refusalSchema = z.union([
  z.object({ code: z.string(), type: z.string().optional() }),
  z.object({ error: z.object({ type: z.string() }) }).transform(({ error }) => ({ code: error.type, type: undefined })),
]);

/** An answer by its status, and its type or else its code: `429 guest_calls`, `400 VALIDATION_ERROR`. */
export function outcomeOf(status: number, body: string): string {
  if (status < 400) return String(status);
  const parsed = refusalSchema.safeParse(parseJson(body));
  return parsed.success ? `${status} ${parsed.data.type ?? parsed.data.code}` : String(status);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
