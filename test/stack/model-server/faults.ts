import { z } from 'zod';
import { derailments } from './derail.ts';

const milliseconds = z.int().min(0).max(3_600_000);
const chunks = z.int().min(0);

/** The faults of a simulated model server. Several can apply at once; the first that ends the call wins. */
export const faultSchema = z
  .strictObject({
    /** Waits until this fault is cleared or replaced, before anything else. */
    untilHealed: z.boolean().optional(),
    /** Waits this long, after `untilHealed` and before anything else. */
    latencyMs: milliseconds.optional(),
    /** Never answers, and keeps the connection. */
    hang: z.boolean().optional(),
    /** Resets the connection (RST), or closes it (FIN), without a byte. */
    resetBeforeHeaders: z.boolean().optional(),
    closeBeforeHeaders: z.boolean().optional(),
    /** Sends header lines endlessly. */
    endlessHeaders: z.boolean().optional(),
    /** Answers with bytes that are not HTTP, or with a 200 whose body is invalid JSON, a web page, or an error. */
    garbage: z.enum(['http', 'json', 'html', 'error']).optional(),
    /** Answers with this status, with `errorMessage` (also used by an error event), a `Retry-After` and a `Location` if given. */
    status: z.int().min(300).max(599).optional(),
    retryAfterSeconds: z.int().min(0).optional(),
    location: z.string().optional(),
    errorMessage: z.string().optional(),
    /** Takes this long to send the header, in small pieces. The reply then ends with its connection. */
    slowHeadersMs: milliseconds.optional(),
    /** Announces a body this many times its length, sends the body, and closes the connection. */
    lengthFactor: z.number().min(0).max(10).optional(),
    /**
     * After this many tokens: resets the connection; ends the response properly, without the events that end a complete one; goes silent.
     * A whole reply breaks off half-way through its body instead.
     */
    cutAfterChunks: chunks.optional(),
    endAfterChunks: chunks.optional(),
    stallAfterChunks: chunks.optional(),
    /**
     * After this many tokens, or after half of a whole reply, this replaces the rest, in the format of the endpoint. `a failed event` is an
     * error event where the format has no event for a failed answer.
     */
    derails: z.strictObject({ afterChunks: chunks, into: z.enum(derailments) }).optional(),
    /** The pause before each token except the first, instead of the server's own pace. */
    chunkMs: milliseconds.optional(),
    /** Never stops producing: a stream of tokens, or one whole reply without an end. */
    endless: z.boolean().optional(),
    /** Streams only: events with truncated JSON, from the first token on. */
    badEvents: z.boolean().optional(),
    /** Puts a byte that is never valid UTF-8 into every content. */
    invalidUtf8: z.boolean().optional(),
    /** Produces its complete answer, without regard to the requested limit. */
    ignoresLimit: z.boolean().optional(),
    /** Reports no token counts. */
    noUsage: z.boolean().optional(),
    /** Streams only: omits the event that ends a complete stream, such as `[DONE]`, `response.completed` or `message_stop`. */
    noDone: z.boolean().optional(),
    /** How many of the following calls are affected. Omitted: all, until it is cleared. */
    times: z.int().min(1).optional(),
  })
  .refine((fault) => Object.keys(fault).some((key) => key !== 'times'), { error: 'contains no fault' });

export type Fault = z.infer<typeof faultSchema>;

/** The fault of one call. */
export type TakenFault = {
  fault: Fault;
  /** Aborted when the fault is cleared or replaced. */
  healed: AbortSignal;
};

export type Faults = ReturnType<typeof createFaults>;

/** The present faults, for one model or for all models without their own. Each affected call uses up one of `times`. */
export function createFaults() {
  const faults = new Map<string, { fault: Fault; left: number; healing: AbortController }>();
  const end = (model: string) => {
    faults.get(model)?.healing.abort();
    faults.delete(model);
  };
  return {
    set(fault: Fault, model = everyModel): void {
      end(model);
      faults.set(model, { fault, left: fault.times ?? Number.POSITIVE_INFINITY, healing: new AbortController() });
    },
    /** The faults of one model, or of all models. */
    clear(model?: string): void {
      for (const each of model === undefined ? [...faults.keys()] : [model]) end(each);
    },
    take(model: string): TakenFault {
      const held = faults.get(model) ?? faults.get(everyModel);
      if (held === undefined || held.left <= 0) return noFault;
      held.left -= 1;
      return { fault: held.fault, healed: held.healing.signal };
    },
  };
}

const everyModel = '*';
const noFault: TakenFault = { fault: {}, healed: AbortSignal.abort() };
