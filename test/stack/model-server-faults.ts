import { z } from 'zod';
import { derailments } from './model-server-derail.ts';

const milliseconds = z.int().min(0).max(3_600_000);
const chunks = z.int().min(0);

/** What a simulated model server can be told to do wrong. Several can hold at once; the first that ends the call wins. */
export const faultSchema = z
  .strictObject({
    /** Waits this long before anything else. */
    latencyMs: milliseconds.optional(),
    /** Never answers, and keeps the connection. */
    hang: z.boolean().optional(),
    /** Resets the connection (RST), or closes it (FIN), without a byte. */
    resetBeforeHeaders: z.boolean().optional(),
    closeBeforeHeaders: z.boolean().optional(),
    /** Sends one line of a header after another. */
    endlessHeaders: z.boolean().optional(),
    /** Answers bytes that are not HTTP, or a 200 whose body is JSON that is not JSON, a web page, or an error. */
    garbage: z.enum(['http', 'json', 'html', 'error']).optional(),
    /** Answers this status, with `errorMessage` (which an error event has as well), a `Retry-After` and a `Location` if given. */
    status: z.int().min(300).max(599).optional(),
    retryAfterSeconds: z.int().min(0).optional(),
    location: z.string().optional(),
    errorMessage: z.string().optional(),
    /** Takes this long to send the header, bit by bit; the reply then ends with its connection. */
    slowHeadersMs: milliseconds.optional(),
    /** Announces a body this many times as long as it is, sends what there is, and closes the connection. */
    lengthFactor: z.number().min(0).max(10).optional(),
    /**
     * After this many tokens: resets the connection; ends the response properly, with neither `finish_reason` nor
     * `[DONE]`; goes silent. A whole reply breaks off half-way through its body instead.
     */
    cutAfterChunks: chunks.optional(),
    endAfterChunks: chunks.optional(),
    stallAfterChunks: chunks.optional(),
    /** After this many tokens, or after half of a whole reply, this comes in place of the rest. */
    derails: z.strictObject({ afterChunks: chunks, into: z.enum(derailments) }).optional(),
    /** The pause before each token but the first, in place of the server's own pace. */
    chunkMs: milliseconds.optional(),
    /** Never stops producing: a stream of tokens, or one whole reply without an end. */
    endless: z.boolean().optional(),
    /** Streams: events whose JSON breaks off, from the first token on. */
    badEvents: z.boolean().optional(),
    /** Puts a byte that is never UTF-8 into every content. */
    invalidUtf8: z.boolean().optional(),
    /** Produces what it has to say, however much it was told to produce at most. */
    ignoresLimit: z.boolean().optional(),
    noUsage: z.boolean().optional(),
    noDone: z.boolean().optional(),
    /** How many of the following calls it happens to; left out: all, until it is cleared. */
    times: z.int().min(1).optional(),
  })
  .refine((fault) => Object.keys(fault).some((key) => key !== 'times'), { error: 'names no fault' });

export type Fault = z.infer<typeof faultSchema>;

export type Faults = ReturnType<typeof createFaults>;

/** The faults that hold now, for one model or for all that have none of their own; each call that meets one takes one of its `times`. */
export function createFaults() {
  const faults = new Map<string, { fault: Fault; left: number }>();
  return {
    set(fault: Fault, model = everyModel): void {
      faults.set(model, { fault, left: fault.times ?? Number.POSITIVE_INFINITY });
    },
    /** Those of one model, or all. */
    clear(model?: string): void {
      if (model === undefined) faults.clear();
      else faults.delete(model);
    },
    take(model: string): Fault {
      const held = faults.get(model) ?? faults.get(everyModel);
      if (held === undefined || held.left <= 0) return {};
      held.left -= 1;
      return held.fault;
    },
  };
}

const everyModel = '*';
