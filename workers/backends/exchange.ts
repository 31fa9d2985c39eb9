import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import type { BackendError } from './backend-error.ts';
import { classifyFailure } from './classify-failure.ts';
import { createOverdue, type Overdue } from './overdue.ts';

/** One call over HTTP, for whoever reads its answer. Only the first word of how it went counts. */
export interface Exchange<Result> extends Pick<Overdue, 'expectWithin' | 'relax'> {
  /** What little may follow of the body is read away, so that the connection can serve the next call. */
  succeed(result: Result): void;
  /** Both end the call at once, and its connection with it unless the body has ended. */
  stop(result: Result): void;
  fail(error: unknown): void;
  isOver(): boolean;
  /** Nothing more is to be read until `goOn`; what is on its way still comes. */
  pause(): void;
  goOn(): void;
}

/** Reads the body of an answer. What it throws fails the exchange. */
export interface BodyReader {
  take(bytes: Buffer): void;
  end(): void;
  /** No more comes, and that was not all. */
  breakOff(error: BackendError): void;
}

export type Head = { status: number; headers: IncomingHttpHeaders };

type Parts<Result> = {
  dispatcher: Pick<Dispatcher, 'dispatch'>;
  request: Dispatcher.DispatchOptions;
  signal: AbortSignal;
  /** Called with the head of the answer; it may fail the exchange. */
  readerOf: (head: Head, exchange: Exchange<Result>) => BodyReader;
  /** Called before the request is sent. */
  onOpen?: (exchange: Exchange<Result>) => void;
};

/** After the answer no more is read than comes within this. */
const restBytesMax = 65_536;
const restMs = 1_000;

/**
 * Sends a request, and has its answer read as it comes, by undici's callbacks: its streams and their iterators take three times
 * as much of a processor for a token. Fails by what the reader says, else by a `BackendError`.
 */
export function exchange<Result>(parts: Parts<Result>): Promise<Result> {
  const { promise, resolve, reject } = Promise.withResolvers<Result>();
  const { signal } = parts;
  const overdue = createOverdue();
  let controller: Dispatcher.DispatchController | undefined;
  let reader: BodyReader | undefined;
  let isSettled = false;
  let isClosed = false;
  let restBytes = restBytesMax;

  const onAbort = () => fail(classifyFailure(signal.reason));

  function settle(): boolean {
    if (isSettled) return false;
    isSettled = true;
    signal.removeEventListener('abort', onAbort);
    overdue.relax();
    return true;
  }

  function fail(error: unknown): void {
    if (!settle()) return;
    reject(error);
    close();
  }

  function close(): void {
    overdue[Symbol.dispose]();
    if (!isClosed) controller?.abort(new Error('the call was given up'));
  }

  const given: Exchange<Result> = {
    succeed(result) {
      if (!settle()) return;
      resolve(result);
      given.goOn();
      // Mostly the end comes with the last of the answer, and is there before this is run.
      queueMicrotask(() => (isClosed ? overdue[Symbol.dispose]() : overdue.expectWithin(restMs, close)));
    },
    stop(result) {
      if (!settle()) return;
      resolve(result);
      close();
    },
    fail,
    isOver: () => isSettled,
    pause: () => controller?.pause(),
    goOn: () => controller?.resume(),
    expectWithin: overdue.expectWithin,
    relax: overdue.relax,
  };

  function skip(bytes: number): void {
    restBytes -= bytes;
    if (restBytes < 0) close();
  }

  function read(reading: () => void): void {
    try {
      reading();
    } catch (error) {
      fail(error);
    }
  }

  const handler: Dispatcher.DispatchHandler = {
    onRequestStart(opened) {
      controller = opened;
      if (isSettled) close();
    },
    onResponseStart(_, status, headers) {
      if (status < 200 || isSettled) return;
      read(() => {
        reader = parts.readerOf({ status, headers }, given);
      });
    },
    onResponseData(_, bytes) {
      if (isSettled) skip(bytes.length);
      else read(() => reader?.take(bytes));
    },
    onResponseEnd() {
      isClosed = true;
      if (isSettled) overdue[Symbol.dispose]();
      else read(() => reader?.end());
    },
    onResponseError(_, error) {
      isClosed = true;
      const failure = classifyFailure(error);
      if (isSettled) overdue[Symbol.dispose]();
      else if (reader === undefined) fail(failure);
      else read(() => reader?.breakOff(failure));
    },
  };

  if (signal.aborted) onAbort();
  else {
    signal.addEventListener('abort', onAbort, { once: true });
    parts.onOpen?.(given);
    parts.dispatcher.dispatch(parts.request, handler);
  }
  return promise;
}
