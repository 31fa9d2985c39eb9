import type { BackendError } from './backend-error.ts';
import type { BodyReader, Exchange } from './exchange.ts';
import { createEventStreamParser } from './parse-event-stream.ts';

/** How a stream ended: its reader wanted no more (`cut`), `[DONE]` came, or it ended without. */
export type StreamEnd = 'cut' | 'done' | 'ended';

/** Takes the events of a stream, one after another. */
export interface EventReader {
  /** Takes the data of one event; true if the rest is not to be read. The next event comes when a promise is fulfilled. */
  take(data: string): boolean | Promise<boolean>;
  /** Whether the answer proper has begun. */
  begun(): boolean;
}

/** What comes while its reader is busy is kept; beyond so much of it the backend has to wait. */
const keptBytesMax = 65_536;

/** Reads a stream to its end. Fails by what its reader throws, as it is, else by a `BackendError`. */
export function readEvents({
  exchange,
  reader,
  expectNext,
}: {
  exchange: Exchange<StreamEnd>;
  reader: EventReader;
  /** Sets the time within which the next event has to come. */
  expectNext: () => void;
}): BodyReader {
  const parse = createEventStreamParser();
  let events: string[] = [];
  let next = 0;
  let isBusy = false;
  let keptBytes = 0;
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
      expectNext();
    }
    if (failure !== undefined) exchange.fail(failure);
    else if (isEnded) exchange.succeed('ended');
    else readOn();
  }

  /** Last of all: more bytes can arrive before this returns. */
  function readOn(): void {
    const wasPaused = keptBytes > keptBytesMax;
    keptBytes = 0;
    if (wasPaused) exchange.goOn();
  }

  function waitFor(taken: Promise<boolean>, data: string): void {
    isBusy = true;
    exchange.relax(); // what the reader takes for it is not the backend's silence
    taken.then((isCut) => goOn(isCut, data), exchange.fail);
  }

  function goOn(isCut: boolean, data: string): void {
    isBusy = false;
    if (exchange.isOver() || isLast(isCut, data)) return;
    try {
      takeEvents();
    } catch (error) {
      // At once: the next bytes may come before a promise that is rejected tells of it.
      exchange.fail(error);
    }
  }

  function keep(bytes: number): void {
    keptBytes += bytes;
    if (keptBytes > keptBytesMax) exchange.pause();
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
      if (isBusy) keep(bytes.length);
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
