import type { ApiError } from '../../shared/errors.ts';
import type { TokenUsage } from '../../shared/jobs/replies.ts';
import { ownText } from '../../shared/own-text.ts';

/** `chunk` is text for the client as it stands; `end` comes last, with the body of an answer that is not streamed. */
export type ReplyEvent = { kind: 'chunk'; text: string } | { kind: 'end'; body: string | undefined; usage: TokenUsage };

/** More than this waiting for one slow client, and its reply is given up. */
const bufferedBytesMax = 1_048_576;

/** The events of one reply on their way from the stream to whoever writes them out, one at a time. */
export interface ReplyBuffer {
  /**
   * The next event, with all the text that has come in one; once the reply has failed, what came before that is still given
   * out, then this throws `ApiError`.
   */
  next(): Promise<ReplyEvent>;
  /** False when the reader is so slow that the buffer is full. Of no effect once the reply has failed, as failing again. */
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
      // An end after text that was given up would make a whole answer of one with a hole.
      if (failure !== undefined) return true;
      if (reader !== undefined) {
        reader.resolve(event);
        reader = undefined;
        return true;
      }
      // Else it would keep all of its frame, with the replies to other clients.
      events.push(event.kind === 'chunk' ? { kind: 'chunk', text: ownText(event.text) } : event);
      bufferedBytes += sizeOf(event);
      return bufferedBytes <= bufferedBytesMax;
    },
    fail(error) {
      failure ??= error;
      reader?.reject(failure);
      reader = undefined;
    },
  };
}

/** A whole answer is one event that its worker has bounded already; only text that piles up counts. */
function sizeOf(event: ReplyEvent): number {
  return event.kind === 'chunk' ? Buffer.byteLength(event.text) : 0;
}
