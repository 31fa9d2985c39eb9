import { createParser } from 'eventsource-parser';
import { BackendError } from '../../shared/endpoints/answers/backend-error.ts';
import type { BodyReader, Exchange } from './exchange.ts';

/** How a stream ended: it was one JSON (`whole`), its reader wanted no more (`cut`), `[DONE]` came, or it ended without it. */
export type StreamEnd = 'cut' | 'done' | 'ended' | 'whole';

/** Takes the events of a stream, one after another. */
export interface EventReader {
  /** Takes the data of one event. True if the rest must not be read. After a promise, the next event comes when it is fulfilled. */
  take(data: string): boolean | Promise<boolean>;
  /** Whether the answer proper has begun. */
  begun(): boolean;
}

/** Bytes that arrive while the reader is busy are kept up to this limit. Beyond it, the backend has to wait. */
const keptBytesMax = 65_536;

/** Reads a stream to its end. Fails with the reader's error, else with a `BackendError`. */
export function readEvents({
  exchange,
  reader,
  expectNext,
}: {
  exchange: Exchange<StreamEnd>;
  reader: EventReader;
  /**
   * Sets the time limit for the next bytes. Any byte shows that the backend is alive, also one of a comment
   * (contract.md#ms8-signs-of-life).
   */
  expectNext: () => void;
}): BodyReader {
  const parse = createEventStreamParser();
  const kept = createKeptBytes(exchange);
  let events: string[] = [];
  let next = 0;
  let isBusy = false;
  let isEnded = false;
  let failure: BackendError | undefined;

  function takeEvents(): void {
    while (next < events.length) {
      const data = events[next++] as string; // the index is within the length
      const isCut = reader.take(data);
      if (typeof isCut !== 'boolean') {
        waitFor(isCut, data);
        return;
      }
      if (isLast(isCut, data)) return;
    }
    if (next > 0) {
      events = [];
      next = 0;
    }
    expectNext();
    if (failure !== undefined) exchange.fail(failure);
    else if (isEnded) exchange.succeed('ended');
    else kept.release();
  }

  function waitFor(taken: Promise<boolean>, data: string): void {
    isBusy = true;
    exchange.relax(); // the time that the reader takes is not the backend's
    taken.then((isCut) => takeNext(isCut, data), exchange.fail);
  }

  function takeNext(isCut: boolean, data: string): void {
    isBusy = false;
    if (exchange.isOver() || isLast(isCut, data)) return;
    try {
      takeEvents();
    } catch (error) {
      // At once: the next bytes may arrive before a rejected promise is handled.
      exchange.fail(error);
    }
  }

  function isLast(isCut: boolean, data: string): boolean {
    if (isCut) exchange.stop('cut');
    else if (data === '[DONE]') exchange.succeed('done');
    else return false;
    return true;
  }

  return {
    take(bytes) {
      if (failure !== undefined) return;
      failure = parse(bytes, events);
      if (isBusy) kept.add(bytes.length);
      else takeEvents();
    },
    isFlowing: reader.begun,
    end() {
      isEnded = true;
      if (!isBusy) takeEvents();
    },
    breakOff(error) {
      failure ??= error;
      if (!isBusy) takeEvents();
    },
  };
}

/** Counts the bytes that wait for the reader, and pauses the connection while there are too many. */
function createKeptBytes(exchange: Pick<Exchange<StreamEnd>, 'pause' | 'resume'>) {
  let bytes = 0;
  return {
    add(more: number): void {
      const wasPaused = bytes > keptBytesMax;
      bytes += more;
      if (bytes > keptBytesMax && !wasPaused) exchange.pause();
    },
    /** Call this last: more bytes can arrive before it returns. */
    release(): void {
      const wasPaused = bytes > keptBytesMax;
      bytes = 0;
      if (wasPaused) exchange.resume();
    },
  };
}

const eventCharactersMax = 4_194_304;

/**
 * Adds the `data` of each server-sent event to `events` when its last byte has arrived. Bytes may be split anywhere, also inside a
 * character. Bytes that are not UTF-8, or an event without end, are `unreadable` (WHATWG HTML, server-sent events), after all events before
 * them, for any split. Do not call it again after that.
 */
type ParseEventStream = (bytes: Uint8Array, events: string[]) => BackendError | undefined;

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

/** The text of these bytes, up to the first that are not UTF-8. `failure`: the error of those. */
type DecodedText = { text: string; failure?: unknown };

const characterBytesMax = 4;

/**
 * Decodes text that comes in pieces, which may be split inside a character. Text before bytes that are not UTF-8 is returned, for any
 * split. Do not call it again after a failure. A byte order mark is kept.
 */
export function createUtf8Decoder(): (piece: Uint8Array) => DecodedText {
  const decoder = strictDecoder();
  let latest: Uint8Array = new Uint8Array();
  return function decode(piece) {
    try {
      const text = decoder.decode(piece, { stream: true });
      latest = lastBytes(latest, piece);
      return { text };
    } catch (failure) {
      return { text: textBefore(Buffer.concat([unfinished(latest), piece])), failure };
    }
  };
}

function strictDecoder() {
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
}

/** The last bytes, as many as an unfinished character can have. */
function lastBytes(before: Uint8Array, piece: Uint8Array): Uint8Array {
  const length = characterBytesMax - 1;
  return piece.length >= length ? piece.slice(-length) : Buffer.concat([before, piece]).subarray(-length);
}

/** The unfinished character at the end of valid bytes. */
function unfinished(bytes: Uint8Array): Uint8Array {
  const first = bytes.findLastIndex((byte) => byte >= 0xc0);
  const lead = bytes[first] ?? 0;
  const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  return first >= 0 && bytes.length - first < length ? bytes.subarray(first) : new Uint8Array();
}

/** Byte by byte, because a failing decoder returns nothing of its input. */
function textBefore(bytes: Uint8Array): string {
  const decoder = strictDecoder();
  let text = '';
  try {
    for (const byte of bytes) text += decoder.decode(Uint8Array.of(byte), { stream: true });
  } catch {
    // This is the invalid byte.
  }
  return text;
}
