import type { IncomingHttpHeaders } from 'node:http';
import { type Dispatcher, errors } from 'undici';
import { inTurn } from '../../shared/concurrency/in-turn.ts';
import { BackendError } from '../../shared/endpoints/answers/backend-error.ts';
import { type Flow, parsedFlow } from '../../shared/fleet/gather-reads.ts';
import type { Source } from '../../shared/process/held-bytes.ts';

/** One HTTP call, as the reader of its answer sees it. Only the first outcome counts. */
export interface Exchange<Result> extends Pick<TimeLimit, 'expectWithin' | 'relax'> {
  /** If the rest of the body is short, it is read and dropped, so that the connection can serve the next call. */
  succeed(result: Result): void;
  /** `stop` and `fail` end the call at once, and close its connection unless the body has ended. */
  stop(result: Result): void;
  fail(error: unknown): void;
  isOver(): boolean;
  /** Whether bytes have arrived that are read at the next tick. */
  hasUnread(): boolean;
  /** Stops reading until `resume`. Bytes that were already read still arrive. */
  pause(): void;
  resume(): void;
  /** The answer for those who decide whether there is room for it: while they pause it, its time limits do not run. */
  source: Source;
  /** Milliseconds for which it was paused by them. */
  pausedMs(): number;
}

/** Reads the body of an answer. An error that it throws fails the exchange. */
export interface BodyReader {
  take(bytes: Buffer): void;
  /** Whether a text has begun, so that further bytes may wait for a tick. */
  isFlowing?(): boolean;
  end(): void;
  /** The body broke off before its end. */
  breakOff(error: BackendError): void;
}

export type Head = { status: number; headers: IncomingHttpHeaders };

type ExchangeOptions<Result> = {
  dispatcher: Pick<Dispatcher, 'dispatch'>;
  request: Dispatcher.DispatchOptions;
  signal: AbortSignal;
  /** Called with the head of the answer; it may fail the exchange. */
  readerOf: (head: Head, exchange: Exchange<Result>) => BodyReader;
  /** Called before the request is sent. */
  onOpen?: (exchange: Exchange<Result>) => void;
};

/** The rest of a body is read up to these limits. */
const restBytesMax = 65_536;
const restMs = 1_000;
/** Whether bytes of any call are being read. */
let isReading = false;
/** A large answer would otherwise hold the event loop for all of it. One that comes more slowly, as streams do, does not wait. */
const turn = { bytes: 65_536, withinMs: 100 };

/**
 * Sends a request and reads its answer as it arrives, with undici's callbacks: over real sockets, a token costs a quarter less than with
 * undici's streams (decisions.md#undici-s-callbacks). Fails with the reader's error, else with a `BackendError`.
 */
export function exchange<Result>(deps: ExchangeOptions<Result>): Promise<Result> {
  const { promise, resolve, reject } = Promise.withResolvers<Result>();
  const { signal } = deps;
  const call = createCall();
  const { timeLimit } = call;
  const onAbort = () => {
    // What has arrived was produced, and is charged. It cannot be parsed in the middle of other bytes.
    if (!isReading) call.flow?.readNow();
    fail(classifyFailure(signal.reason));
  };

  function settle(): boolean {
    if (call.isSettled()) return false;
    call.settle();
    signal.removeEventListener('abort', onAbort);
    return true;
  }

  function fail(error: unknown): void {
    if (!settle()) return;
    reject(error);
    call.close();
  }

  const given: Exchange<Result> = {
    succeed(result) {
      if (!settle()) return;
      resolve(result);
      call.readOn();
      call.closeAfterRest();
    },
    stop(result) {
      if (!settle()) return;
      resolve(result);
      call.close();
    },
    fail,
    isOver: call.isSettled,
    hasUnread: () => call.flow?.waits === true,
    pause: call.pause,
    resume: call.resume,
    expectWithin: timeLimit.expectWithin,
    relax: timeLimit.relax,
    source: call.source,
    pausedMs: timeLimit.suspendedMs,
  };

  if (signal.aborted) onAbort();
  else {
    signal.addEventListener('abort', onAbort, { once: true });
    deps.onOpen?.(given);
    const readerOf = (head: Head) => deps.readerOf(head, given);
    deps.dispatcher.dispatch(deps.request, createHandler({ call, readerOf, fail }));
  }
  return promise;
}

type Call = ReturnType<typeof createCall>;

/** The connection side of one exchange, and its time limit. */
function createCall() {
  const timeLimit = createTimeLimit();
  let controller: Dispatcher.DispatchController | undefined;
  let isSettled = false;
  let hasEnded = false;
  let restBytes = restBytesMax;
  let pauses = 0;
  let waits = 0;

  function close(): void {
    timeLimit[Symbol.dispose]();
    if (!hasEnded) controller?.abort(new Error('the call was given up'));
  }

  function pause(): void {
    pauses++;
    controller?.pause();
  }

  function resume(): void {
    if (pauses > 0 && --pauses === 0 && !hasEnded) controller?.resume();
  }

  return {
    timeLimit,
    /** Its connection, once the head has arrived. */
    flow: undefined as Flow | undefined,
    close,
    pause,
    resume,
    /** Pauses for room or for a turn: this time is no silence of the backend. */
    source: {
      pause() {
        if (waits++ === 0) timeLimit.suspend();
        pause();
      },
      /** Room is also made by bytes of another connection, and undici cannot resume this one until it has parsed them. */
      resume() {
        if (waits > 0 && --waits === 0) timeLimit.resume();
        queueMicrotask(resume);
      },
    },
    open(opened: Dispatcher.DispatchController): void {
      controller = opened;
      if (isSettled) close();
    },
    settle(): void {
      isSettled = true;
      waits = 0;
      timeLimit.relax();
      timeLimit.resume();
    },
    isSettled: () => isSettled,
    /** Reads the rest, even if it is paused. */
    readOn(): void {
      pauses = 0;
      controller?.resume();
    },
    /** The body has ended, or has failed. */
    end(): void {
      hasEnded = true;
      if (isSettled) timeLimit[Symbol.dispose]();
    },
    skip(bytes: number): void {
      restBytes -= bytes;
      if (restBytes < 0) close();
    },
    /** Usually the body ends together with the last of the answer, before the microtask runs. */
    closeAfterRest(): void {
      queueMicrotask(() => (hasEnded ? timeLimit[Symbol.dispose]() : timeLimit.expectWithin(restMs, close)));
    },
  };
}

function createHandler({
  call,
  readerOf,
  fail,
}: {
  call: Call;
  readerOf: (head: Head) => BodyReader;
  fail: (error: unknown) => void;
}): Dispatcher.DispatchHandler {
  let reader: BodyReader | undefined;
  let wasSent = false;
  let bytesOfTurn = 0;
  let turnSince = performance.now();

  /** Others have a turn after this many bytes. */
  function takeTurns(bytes: number): void {
    bytesOfTurn += bytes;
    if (bytesOfTurn < turn.bytes) return;
    const isSlow = performance.now() - turnSince > turn.withinMs;
    beginTurn();
    if (isSlow) return;
    call.source.pause();
    inTurn(() => {
      beginTurn();
      call.source.resume();
    });
  }

  function beginTurn(): void {
    bytesOfTurn = 0;
    turnSince = performance.now();
  }

  function read(reading: () => void): void {
    isReading = true;
    try {
      reading();
    } catch (error) {
      fail(error);
    } finally {
      isReading = false;
    }
  }

  return {
    onRequestStart: (controller) => call.open(controller),
    // undici calls this when it has passed the last of the request to the socket. The kernel may not have it yet.
    onRequestSent() {
      wasSent = true;
    },
    onResponseStart(_, status, headers) {
      if (status < 200 || call.isSettled()) return;
      beginTurn();
      call.flow = parsedFlow();
      read(() => {
        reader = readerOf({ status, headers });
      });
    },
    onResponseData(_, bytes) {
      if (call.isSettled()) call.skip(bytes.length);
      else read(() => reader?.take(bytes));
      if (call.flow !== undefined) call.flow.isFlowing = reader?.isFlowing?.() === true && !call.isSettled();
      takeTurns(bytes.length);
    },
    onResponseEnd() {
      if (call.flow !== undefined) call.flow.isFlowing = false;
      call.flow = undefined;
      call.end();
      if (!call.isSettled()) read(() => reader?.end());
    },
    onResponseError(_, error) {
      call.end();
      if (call.isSettled()) return;
      const failure = classifyFailure(error, { wasSent });
      if (reader === undefined) fail(failure);
      else read(() => reader?.breakOff(failure));
    },
  };
}

/** A backend that asks for a shorter or longer pause is called again after these times. */
const retryAfterMs = { min: 250, max: 60_000 };

/** Classifies a failed call: a `BackendError` is returned unchanged, anything else by undici's error classes. */
export function classifyFailure(error: unknown, { wasSent = true }: { wasSent?: boolean } = {}): BackendError {
  if (error instanceof BackendError) return error;
  const details = { cause: error, wasSent };
  if (error instanceof errors.ConnectTimeoutError)
    return new BackendError('connect_timeout', 'no connection in time', details);
  if (error instanceof errors.HTTPParserError) return new BackendError('unreadable', 'the answer is not HTTP', details);
  if (error instanceof errors.ResponseContentLengthMismatchError) {
    return new BackendError('unreadable', 'the length of the answer differs from its content-length', details);
  }
  return new BackendError('connection', 'the connection failed', details);
}

/**
 * In seconds or as a date (RFC 9110 10.2.3), or in milliseconds as OpenAI sends it. Undefined if a response has none, or asks for no pause.
 */
export function readRetryAfter(headers: IncomingHttpHeaders, now = Date.now()): number | undefined {
  const milliseconds = Number(single(headers['retry-after-ms']) ?? Number.NaN);
  const text = single(headers['retry-after']) ?? '';
  const waitMs = /^\d+$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - now;
  const known = [milliseconds, waitMs].find((ms) => ms > 0);
  return known === undefined ? undefined : Math.min(Math.max(known, retryAfterMs.min), retryAfterMs.max);
}

function single(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' ? header : header?.[0];
}

/** Setting a limit is cheap, because it happens with every event: one timer checks the limit when it may be over. */
export function createTimeLimit(now = () => performance.now()) {
  let due = Number.POSITIVE_INFINITY;
  let late = () => {};
  let timer: NodeJS.Timeout | undefined;
  let checksAt = Number.POSITIVE_INFINITY;
  let suspendedAt: number | undefined;
  let suspended = 0;

  const clock = () => (suspendedAt ?? now()) - suspended;

  function setTimer(): void {
    clearTimeout(timer);
    checksAt = due;
    if (due === Number.POSITIVE_INFINITY || suspendedAt !== undefined) return;
    // Node warns of a negative time, on the worker's stderr. In a process that was frozen, late timers run before the sockets are read.
    timer = setTimeout(setImmediate, Math.max(0, due - clock()), check);
  }

  function check(): void {
    const isLate = suspendedAt === undefined && due <= clock();
    if (isLate) due = Number.POSITIVE_INFINITY;
    setTimer();
    if (isLate) late();
  }

  return {
    /** Sets a new time limit in milliseconds and its callback. It replaces the previous one. */
    expectWithin(ms: number, onLate: () => void): void {
      due = clock() + ms;
      late = onLate;
      // A timer that is set for an earlier time checks again then.
      if (due < checksAt) setTimer();
    },
    /** Removes the time limit until the next one is set. */
    relax(): void {
      due = Number.POSITIVE_INFINITY;
    },
    /** Time does not count until `resume`. */
    suspend(): void {
      suspendedAt ??= now();
      clearTimeout(timer);
      checksAt = Number.POSITIVE_INFINITY;
    },
    resume(): void {
      if (suspendedAt === undefined) return;
      suspended += now() - suspendedAt;
      suspendedAt = undefined;
      setTimer();
    },
    /** Milliseconds for which it was suspended. */
    suspendedMs: (): number => suspended,
    [Symbol.dispose]() {
      due = Number.POSITIVE_INFINITY;
      setTimer();
    },
  };
}

/** A time limit that is set again and again. */
type TimeLimit = ReturnType<typeof createTimeLimit>;

/** A signal that is aborted with the reason of the first of `parents` that is aborted, or when the time limit is over. */
export function createWatchdog(parents: readonly AbortSignal[], now = () => performance.now()) {
  const controller = new AbortController();
  const timeLimit = createTimeLimit(now);
  const abort = (reason: unknown) => controller.abort(reason);
  // `AbortSignal.any` costs more than all other code here.
  const onParent = () => abort(parents.find(({ aborted }) => aborted)?.reason);
  if (parents.some(({ aborted }) => aborted)) onParent();
  else for (const parent of parents) parent.addEventListener('abort', onParent, { once: true });

  return {
    signal: controller.signal,
    /** Sets a new time limit in milliseconds, and the reason to abort with. It replaces the previous one. */
    expectWithin: (ms: number, reason: () => unknown): void => timeLimit.expectWithin(ms, () => abort(reason())),
    abort,
    [Symbol.dispose]() {
      timeLimit[Symbol.dispose]();
      for (const parent of parents) parent.removeEventListener('abort', onParent);
    },
  };
}
