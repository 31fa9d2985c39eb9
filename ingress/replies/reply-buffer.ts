import type { ApiError } from '../../shared/errors.ts';
import type { TokenUsage } from '../../shared/jobs/replies.ts';
import { ownText } from '../../shared/own-text.ts';

/** `chunk` is text for the client, unchanged. `end` is last, with the body of an answer that is not streamed. */
export type ReplyEvent = { kind: 'chunk'; text: string } | { kind: 'end'; body: string | undefined; usage: TokenUsage };

/** If more than this is buffered for one slow client, its reply fails (contract.md#p5-slow-clients). */
const bufferedBytesMax = 1_048_576;

/** Buffers the events of one reply between the reply stream and the response. */
export interface ReplyBuffer {
  /**
   * Returns the next event; all text that has arrived is one event. After a failure, returns the events from before it, then throws
   * `ApiError`.
   */
  next(): Promise<ReplyEvent>;
  /**
   * Returns false if the buffer is full because the reader is slow, and drops the event: it may say that the answer is complete. After a
   * failure, `push` and `fail` have no effect.
   */
  push(event: ReplyEvent): boolean;
  fail(error: ApiError): void;
}

export function createReplyBuffer(): ReplyBuffer {
  const events: ReplyEvent[] = [];
  let bufferedBytes = 0;
  let failure: ApiError | undefined;
  let reader: PromiseWithResolvers<ReplyEvent> | undefined;

  function takeNext(): ReplyEvent | undefined {
    const event = events.shift();
    if (event?.kind !== 'chunk') return event;
    let text = event.text;
    for (let more = events[0]; more?.kind === 'chunk'; more = events[0]) {
      text += more.text;
      events.shift();
    }
    bufferedBytes = 0;
    return { kind: 'chunk', text };
  }

  return {
    async next() {
      const event = takeNext();
      if (event !== undefined) return event;
      if (failure !== undefined) throw failure;
      reader = Promise.withResolvers();
      return reader.promise;
    },
    push(event) {
      // An end after text that was discarded would make an incomplete answer look complete.
      if (failure !== undefined) return true;
      if (reader !== undefined) {
        reader.resolve(event);
        reader = undefined;
        return true;
      }
      bufferedBytes += sizeOf(event);
      if (bufferedBytes > bufferedBytesMax) return false;
      // Otherwise the text would keep its complete frame in memory, with replies to other clients.
      events.push(event.kind === 'chunk' ? { kind: 'chunk', text: ownText(event.text) } : event);
      return true;
    },
    fail(error) {
      failure ??= error;
      reader?.reject(failure);
      reader = undefined;
    },
  };
}

/** Only buffered text counts: a complete answer is one event, and its worker has bounded it. */
function sizeOf(event: ReplyEvent): number {
  return event.kind === 'chunk' ? Buffer.byteLength(event.text) : 0;
}
