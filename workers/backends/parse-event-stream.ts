import { createParser } from 'eventsource-parser';
import { BackendError } from './backend-error.ts';
import { createUtf8Decoder } from './decode-utf8.ts';

const eventCharactersMax = 4_194_304;

/**
 * The `data` of each server-sent event, as soon as its last byte is there, those that are complete at once together; bytes
 * may be split anywhere, inside a character too. Bytes that are not UTF-8, or an event without end, are `unreadable` (WHATWG
 * HTML, server-sent events), after all events before them, however the bytes were split.
 */
export async function* parseEventStream(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<string[]> {
  const decode = createUtf8Decoder();
  let events: string[] = [];
  const parser = createParser({ onEvent: ({ data }) => events.push(data), maxBufferSize: eventCharactersMax });

  function read(chunk: Uint8Array): unknown {
    const { text, failure } = decode(chunk);
    try {
      parser.feed(text);
      return failure;
    } catch (error) {
      return error;
    }
  }

  for await (const chunk of bytes) {
    const failure = read(chunk);
    if (events.length > 0) {
      const complete = events;
      events = [];
      yield complete;
    }
    if (failure !== undefined)
      throw new BackendError('unreadable', 'the event stream cannot be read', { cause: failure });
  }
}
