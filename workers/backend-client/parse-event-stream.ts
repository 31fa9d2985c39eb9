import { createParser } from 'eventsource-parser';
import { BackendError } from '../../shared/endpoints/answers/backend-error.ts';
import { createUtf8Decoder } from './decode-utf8.ts';

const eventCharactersMax = 4_194_304;

/**
 * Adds the `data` of each server-sent event to `events` when its last byte has arrived. Bytes may be split anywhere, also inside a
 * character. Bytes that are not UTF-8, or an event without end, are `unreadable` (WHATWG HTML, server-sent events), after all events before
 * them, for any split. Do not call it again after that.
 */
export type ParseEventStream = (bytes: Uint8Array, events: string[]) => BackendError | undefined;

export function createEventStreamParser(): ParseEventStream {
  const decode = createUtf8Decoder();
  let target: string[] = [];
  const parser = createParser({ onEvent: ({ data }) => target.push(data), maxBufferSize: eventCharactersMax });

  return function parseEventStream(bytes, events) {
    target = events;
    const { text, failure } = decode(bytes);
    try {
      parser.feed(text);
    } catch (error) {
      return unreadable(error);
    }
    return failure === undefined ? undefined : unreadable(failure);
  };
}

function unreadable(cause: unknown): BackendError {
  return new BackendError('unreadable', 'the event stream cannot be read', { cause });
}
