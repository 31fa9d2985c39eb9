import type { BackendError } from '../../shared/endpoints/answers/backend-error.ts';
import type { BodyReader, Exchange } from './exchange.ts';
import { createEventStreamParser } from './parse-event-stream.ts';

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
