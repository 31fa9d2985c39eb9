import { createParser } from 'eventsource-parser';
import { BackendError } from './backend-error.ts';

const eventCharactersMax = 4_194_304;

/**
 * The `data` of each server-sent event, as soon as its last byte is there, those that are complete at once together; bytes
 * may be split anywhere, inside a character too. Bytes that are not UTF-8, or an event without end, are `unreadable` (WHATWG
 * HTML, server-sent events).
 */
export async function* parseEventStream(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<string[]> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let events: string[] = [];
  const parser = createParser({ onEvent: ({ data }) => events.push(data), maxBufferSize: eventCharactersMax });
  for await (const chunk of bytes) {
    try {
      parser.feed(decoder.decode(chunk, { stream: true }));
    } catch (error) {
      throw new BackendError('unreadable', 'the event stream cannot be read', { cause: error });
    }
    if (events.length === 0) continue;
    const complete = events;
    events = [];
    yield complete;
  }
}
