import type { Dispatcher } from 'undici';
import { BackendError } from '../../shared/endpoints/answers/backend-error.ts';
import { createSizeBudget } from '../../shared/endpoints/answers/parse-backend-json.ts';
import type { SizeBudget } from '../../shared/endpoints/definition/answer-format.ts';
import { addressOf, headersOf } from '../../shared/fleet/ask-backend.ts';
import type { Backend, Timeouts } from '../../shared/plan-file/plan-file.ts';
import type { HeldAnswer } from '../../shared/process/answer-budget.ts';
import type { Source } from '../../shared/process/held-bytes.ts';
import type { TraceContext } from '../../shared/tracing/span.ts';
import { type BodyReader, type Exchange, exchange, type Head } from './exchange.ts';
import { readRefusal, readWhole, type WholeBody, wholeText } from './read-body.ts';
import { type EventReader, readEvents, type StreamEnd } from './read-events.ts';

/**
 * `path`: below the address of the backend. `headers`: those of the client that the backend gets. `requestId` is sent with the call, so
 * that a model server's log can be compared with ours.
 */
export type BackendCall = {
  backend: Backend;
  path: string;
  headers: Readonly<Record<string, string>>;
  apiKey: string | undefined;
  requestId: string;
  /** The trace that the backend continues. */
  trace?: TraceContext | undefined;
  body: string;
  room: AnswerRoom;
  signal: AbortSignal;
  /** The backend has begun to answer. */
  onHead(): void;
  /** Events with text have come: only comments and pings are no tokens. */
  onToken(): void;
  /** Whether the backend has given tokens to other calls within this time, and this one still waits for its first. */
  isBusy(withinMs: number): boolean;
};

/**
 * `isWhole`: a whole answer was asked for, which comes when it is complete: it has no limit for its first token. `hasText`: whether the
 * event that was taken last has text.
 */
export type StreamReader = EventReader & { isWhole: boolean; hasText(): boolean; takeWhole(text: string): void };

/** The room for the answer of one call: what is spent counts in the budget of the process, up to the limit of one answer. */
export interface AnswerRoom extends SizeBudget {
  /** The answer begins to come from this source. */
  readFrom(source: Source): void;
}

export function createAnswerRoom({ held, bytesMax }: { held: HeldAnswer; bytesMax: number }): AnswerRoom {
  const size = createSizeBudget(bytesMax);
  return {
    readFrom: held.readFrom,
    spend(bytes) {
      held.add(bytes);
      size.spend(bytes);
    },
  };
}

function noToken(waitedMs: number): BackendError {
  return new BackendError('first_token_timeout', `no token within ${waitedMs} ms`, { waitedMs });
}

/** Both fail with `BackendError`, or with the reader's error. When `signal` is aborted, the call and its connection end at once. */
export function createCallBackend({
  agents,
  timeouts,
}: {
  agents: { of(backend: Backend): Pick<Dispatcher, 'dispatch'> };
  timeouts: () => Pick<Timeouts, 'firstTokenMs' | 'idleMs'>;
}) {
  function given(call: BackendCall, accept: string) {
    return { dispatcher: agents.of(call.backend), signal: call.signal, request: requestOf(call, accept) };
  }

  function expectBytes<Result>(answer: Exchange<Result>): void {
    const { idleMs } = timeouts();
    answer.expectWithin(idleMs, () => {
      if (answer.hasUnread()) expectBytes(answer);
      else answer.fail(new BackendError('idle_timeout', `nothing for ${idleMs} ms`, { waitedMs: idleMs }));
    });
  }

  /** A backend that gives tokens to other calls is not silent, but busy (contract.md#ms16-silence): the call waits up to its deadline. */
  function expectToken<Result>(call: BackendCall, answer: Exchange<Result>): void {
    const { firstTokenMs } = timeouts();
    answer.expectWithin(firstTokenMs, () => {
      if (call.isBusy(firstTokenMs)) expectToken(call, answer);
      else answer.fail(noToken(firstTokenMs));
    });
  }

  return {
    /** Returns the whole answer, as this body keeps it. After its headers, a pause may last at most `idle_ms`. */
    whole: <Whole>(call: BackendCall, body: WholeBody<Whole>): Promise<Whole> =>
      exchange<Whole>({
        ...given(call, 'application/json'),
        onOpen: (answer) => call.room.readFrom(answer.source),
        readerOf: (head, answer) =>
          refusalOf(call, head, answer) ??
          readWhole(answer, { ...wholeOptions(call, answer), body, onWhole: answer.succeed }),
      }),
    /**
     * Passes the data of each event to the reader. Until the answer proper has begun, no pause may be longer than `first_token_ms`, and
     * from then on none longer than `idle_ms` (contract.md#q5-time-limits). An error of the reader fails the call unchanged. A backend may
     * answer with one JSON instead: then the reader gets its text, and no event. Which it is shows in its first byte, whatever its media
     * type (contract.md#ms10-media-types).
     */
    stream(call: BackendCall, reader: StreamReader): Promise<StreamEnd> {
      return exchange<StreamEnd>({
        ...given(call, 'text/event-stream'),
        onOpen(answer) {
          call.room.readFrom(answer.source);
          if (!reader.isWhole) expectToken(call, answer);
        },
        readerOf: (head, answer) =>
          refusalOf(call, head, answer) ??
          readByFirstByte({ readerOf: (kind) => readerOf(kind, answer), onBlank: () => expectNext(answer) }),
      });

      function readerOf(kind: AnswerKind, answer: Exchange<StreamEnd>): BodyReader {
        if (kind === 'events')
          return readEvents({ exchange: answer, reader: { ...reader, take }, expectNext: () => expectNext(answer) });
        const onWhole = (text: string) => {
          reader.takeWhole(text);
          answer.succeed('whole');
        };
        return readWhole(answer, { ...wholeOptions(call, answer), body: wholeText(), onWhole });
      }

      function take(data: string): boolean | Promise<boolean> {
        const taken = reader.take(data);
        if (reader.hasText()) call.onToken();
        return taken;
      }

      function expectNext(answer: Exchange<StreamEnd>): void {
        if (reader.begun()) expectBytes(answer);
        else if (reader.isWhole) answer.relax();
        else expectToken(call, answer);
      }
    },
  };

  function wholeOptions<Result>({ room }: BackendCall, answer: Exchange<Result>) {
    return { room, onBytes: () => expectBytes(answer) };
  }
}

export type CallBackend = ReturnType<typeof createCallBackend>;

function requestOf(call: BackendCall, accept: string): Dispatcher.DispatchOptions {
  const { backend, path, apiKey, requestId, trace, body } = call;
  return {
    ...addressOf(backend, path),
    method: 'POST',
    headers: {
      ...headersOf(backend, apiKey),
      ...call.headers,
      'content-type': 'application/json',
      accept,
      'x-request-id': requestId,
      ...trace,
    },
    body,
  };
}

/** For every status except 2xx. */
function refusalOf<Result>(call: BackendCall, head: Head, answer: Exchange<Result>): BodyReader | undefined {
  call.onHead();
  return head.status < 300 ? undefined : readRefusal(answer, head);
}

/** Server-sent events, or one JSON. */
type AnswerKind = 'events' | 'JSON';

/** White space, and the bytes of a byte order mark: any answer may begin with them. No reader gets them. */
const skipped = new Set([0x20, 0x09, 0x0a, 0x0d, 0xef, 0xbb, 0xbf]);
/** Of the fields of an event (`data`, `event`, `id`, `retry`) and of a comment. */
const eventBytes = new Set([...'deir:'].map((first) => first.charCodeAt(0)));
const jsonBytes = new Set([...'{['].map((first) => first.charCodeAt(0)));

/**
 * Reads an answer by what it is, which its first byte shows: proxies and servers give streams any media type
 * (contract.md#ms10-media-types). An answer that is neither is `unreadable`. `onBlank` is called for bytes before it: any byte is a sign of
 * life (contract.md#ms8-signs-of-life).
 */
function readByFirstByte({
  readerOf,
  onBlank,
}: {
  readerOf: (kind: AnswerKind) => BodyReader;
  onBlank: () => void;
}): BodyReader {
  let reader: BodyReader | undefined;
  return {
    take(bytes) {
      if (reader !== undefined) return reader.take(bytes);
      const begin = bytes.findIndex((byte) => !skipped.has(byte));
      if (begin === -1) return onBlank();
      reader = readerOf(kindOf(bytes[begin] ?? 0));
      reader.take(bytes.subarray(begin));
    },
    isFlowing: () => reader?.isFlowing?.() === true,
    end: () => (reader ?? readerOf('events')).end(),
    breakOff: (error) => (reader ?? readerOf('events')).breakOff(error),
  };
}

function kindOf(byte: number): AnswerKind {
  if (eventBytes.has(byte)) return 'events';
  if (jsonBytes.has(byte)) return 'JSON';
  throw new BackendError('unreadable', 'the answer is neither an event stream nor JSON');
}
