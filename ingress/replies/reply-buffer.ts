import type { ApiError } from '../../shared/errors.ts';
import { piecesAheadMax } from '../../shared/jobs/control-messages.ts';
import type { TokenUsage } from '../../shared/jobs/replies.ts';
import { ownText } from '../../shared/json/texts.ts';
import type { HeldAnswer } from '../../shared/process/answer-budget.ts';
import type { Source } from '../../shared/process/held-bytes.ts';

/**
 * `chunk` is text for the client, unchanged. `piece` is a part of a large body that has `length` bytes. `end` is last, with the body of an
 * answer that is not streamed, unless it came in pieces.
 */
export type ReplyEvent =
  | { kind: 'chunk'; text: string }
  | { kind: 'piece'; bytes: Buffer; length: number }
  | { kind: 'end'; body: string | undefined; usage: TokenUsage };

/** Text that is being written counts from this length. The buffer of its connection holds as much, and does not count. */
const countedCharacters = 16_384;
/** If more than this is buffered for one slow client, its reply fails (contract.md#p5-slow-clients). */
const bufferedBytesMax = 1_048_576;

/** Writes a text at once, and returns true. False if the connection has to take what was written before. */
export type TextWriter = (text: string) => boolean;

type Deps = { held: HeldAnswer; source: Source; onStalled: () => void };

/**
 * What is buffered counts in `held`, and what was returned until the next event is asked for: it is being written. While there is no room
 * for it, the source of its pieces is paused. `onStalled` is called when it must go, because others need the room.
 */
export function createReplyBuffer(deps: Deps) {
  const room = createRoom(deps);
  const events: ReplyEvent[] = [];
  let bufferedBytes = 0;
  /** Of the event that is being written. */
  let writtenBytes = 0;
  let failure: ApiError | undefined;
  let reader: PromiseWithResolvers<ReplyEvent> | undefined;
  let writeText: TextWriter = () => false;

  function takeNext(): ReplyEvent | undefined {
    const event = events.shift();
    if (event?.kind !== 'chunk') {
      writtenBytes = event === undefined ? 0 : sizeOf(event);
      return event;
    }
    let text = event.text;
    for (let more = events[0]; more?.kind === 'chunk'; more = events[0]) {
      text += more.text;
      events.shift();
    }
    writtenBytes = bufferedBytes;
    bufferedBytes = 0;
    return { kind: 'chunk', text };
  }

  /** The reader waits for this event. */
  function hand(event: ReplyEvent): void {
    reader?.resolve(event);
    reader = undefined;
    if (event.kind === 'end' || (event.kind === 'chunk' && event.text.length < countedCharacters)) return;
    writtenBytes = sizeOf(event);
    room.take(event);
  }

  /** Most texts are short, and are written without waking the reader. */
  function isWritten(event: ReplyEvent): boolean {
    return event.kind === 'chunk' && event.text.length < countedCharacters && writeText(event.text);
  }

  function keep(event: ReplyEvent): void {
    events.push(event);
    room.take(event);
  }

  return {
    /**
     * Returns the next event; all text that has arrived is one event. After a failure, returns the events from before it, then throws
     * `ApiError`.
     */
    async next(): Promise<ReplyEvent> {
      room.give(writtenBytes);
      const event = takeNext();
      if (event !== undefined) return event;
      if (failure !== undefined) throw failure;
      reader = Promise.withResolvers();
      return reader.promise;
    },
    /**
     * Returns false if the buffer is full because the reader is slow, and drops the event: it may say that the answer is complete. After a
     * failure, `push` and `fail` have no effect.
     */
    push(event: ReplyEvent): boolean {
      // An end after text that was discarded would make an incomplete answer look complete.
      if (failure !== undefined) return true;
      if (reader !== undefined || event.kind !== 'chunk') {
        if (reader === undefined) keep(event);
        else if (!isWritten(event)) hand(event);
        return true;
      }
      const bytes = sizeOf(event);
      if (bufferedBytes + bytes > bufferedBytesMax) return false;
      bufferedBytes += bytes;
      // Otherwise the text would keep its complete frame in memory, with replies to other clients.
      keep({ kind: 'chunk', text: ownText(event.text) });
      return true;
    },
    /** While the reader waits for the next event, this writes short texts in its place. */
    writeTextWith(writer: TextWriter): void {
      writeText = writer;
    },
    fail(error: ApiError): void {
      failure ??= error;
      reader?.reject(failure);
      reader = undefined;
    },
    /** Drops what is buffered, and returns it: the client is gone. */
    discard: (): ReplyEvent[] => events.splice(0),
  };
}

/** Buffers the events of one reply between the reply stream and the response. */
export type ReplyBuffer = ReturnType<typeof createReplyBuffer>;

/** The part of the budget that is held for one reply. */
function createRoom({ held, source, onStalled }: Deps) {
  let isHeld = false;

  function begin(kind: ReplyEvent['kind']): void {
    isHeld = true;
    held.readFrom(source);
    // Text comes without being asked for, so no other answer may have to wait for its end.
    if (kind === 'chunk') held.arrived();
  }

  return {
    take(event: ReplyEvent): void {
      const bytes = sizeOf(event);
      if (bytes === 0) return;
      if (!isHeld) begin(event.kind);
      held.stall(onStalled);
      held.add(bytes);
    },
    give(bytes: number): void {
      if (bytes === 0) return;
      held.flow(bytes);
      held.add(-bytes);
    },
  };
}

/** Only text and pieces count: a complete answer in one event is small. */
function sizeOf(event: ReplyEvent): number {
  if (event.kind === 'chunk') return Buffer.byteLength(event.text);
  return event.kind === 'piece' ? event.bytes.length : 0;
}

/** Each report costs a command. */
const reportBytes = piecesAheadMax / 2;

/** Calls `report` with all bytes taken so far, each time that they are half of what may be sent ahead more. */
export function createTakenCount(report: (bytes: number) => void) {
  let taken = 0;
  let length = 0;
  let reported = 0;
  let isPaused = false;

  function reportWhatIsDue(): void {
    // The worker may send the rest anyway.
    if (isPaused || length - reported <= piecesAheadMax || taken - reported < reportBytes) return;
    reported = taken;
    report(taken);
  }

  return {
    /** `length`: the bytes of the whole body. */
    add(bytes: number, lengthOfBody: number): void {
      taken += bytes;
      length = lengthOfBody;
      reportWhatIsDue();
    },
    /** While it is paused nothing is reported, so no more pieces come. */
    source: {
      pause() {
        isPaused = true;
      },
      resume() {
        isPaused = false;
        reportWhatIsDue();
      },
    },
  };
}

/** Counts what the client of one request has taken of its pieces. */
export type TakenCount = ReturnType<typeof createTakenCount>;
