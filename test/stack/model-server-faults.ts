import { z } from 'zod';

const milliseconds = z.int().min(0).max(3_600_000);
const chunks = z.int().min(0);

/** What a simulated model server can be told to do wrong. Several can hold at once; the first that ends the call wins. */
export const faultSchema = z
  .strictObject({
    /** Waits this long before anything else. */
    latencyMs: milliseconds.optional(),
    /** Never answers, and keeps the connection. */
    hang: z.boolean().optional(),
    /** Resets the connection (RST) without a byte. */
    resetBeforeHeaders: z.boolean().optional(),
    /** Answers bytes that are not HTTP, or a 200 whose JSON body is not JSON. */
    garbage: z.enum(['http', 'json']).optional(),
    /** Answers this status, with `errorMessage` and a `Retry-After` if given. */
    status: z.int().min(300).max(599).optional(),
    retryAfterSeconds: z.int().min(0).optional(),
    errorMessage: z.string().optional(),
    /** Takes this long to send the header, bit by bit; the reply then ends with its connection. */
    slowHeadersMs: milliseconds.optional(),
    /**
     * After this many tokens: resets the connection; ends the response properly, with neither `finish_reason` nor
     * `[DONE]`; goes silent. A whole reply breaks off half-way through its body instead.
     */
    cutAfterChunks: chunks.optional(),
    endAfterChunks: chunks.optional(),
    stallAfterChunks: chunks.optional(),
    /** The pause before each token but the first, in place of the server's own pace. */
    chunkMs: milliseconds.optional(),
    /** Never stops producing: a stream of tokens, or one whole reply without an end. */
    endless: z.boolean().optional(),
    /** Streams: events whose JSON breaks off, from the first token on. */
    badEvents: z.boolean().optional(),
    /** Puts a byte that is never UTF-8 into every content. */
    invalidUtf8: z.boolean().optional(),
    noUsage: z.boolean().optional(),
    noDone: z.boolean().optional(),
    /** How many of the following calls it happens to; left out: all, until it is cleared. */
    times: z.int().min(1).optional(),
  })
  .refine((fault) => Object.keys(fault).some((key) => key !== 'times'), { error: 'names no fault' });

export type Fault = z.infer<typeof faultSchema>;

export type Faults = ReturnType<typeof createFaults>;

/** The fault that holds now, if any: at most one, and every call that meets it takes one of its `times`. */
export function createFaults() {
  let fault: Fault | undefined;
  let left = 0;
  return {
    set(next: Fault | undefined): void {
      fault = next;
      left = next?.times ?? Number.POSITIVE_INFINITY;
    },
    take(): Fault {
      if (fault === undefined || left <= 0) return {};
      left -= 1;
      return fault;
    },
  };
}
