import { z } from 'zod';

const refusalSchema = z.union([
  z.object({ code: z.string() }),
  z.object({ error: z.object({ type: z.string() }) }).transform(({ error }) => ({ code: error.type })),
]);

/** An answer in two words: `429 guest_calls`. */
export function outcomeOf(status: number, body: string): string {
  if (status < 400) return String(status);
  const parsed = refusalSchema.safeParse(parseJson(body));
  return parsed.success ? `${status} ${parsed.data.code}` : String(status);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
