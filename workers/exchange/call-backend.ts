import { Agent, buildConnector, type Dispatcher } from 'undici';
import { BackendError } from '../../shared/endpoints/answers/backend-error.ts';
import type { Backend, Timeouts } from '../../shared/plan-file/plan-file.ts';
import type { TraceContext } from '../../shared/tracing/span.ts';
import type { AnswerRoom } from './answer-room.ts';
import { type BodyReader, type Exchange, exchange, type Head } from './exchange.ts';
import { readRefusal, readWhole, type WholeBody, wholeText } from './read-body.ts';
import { type EventReader, readEvents, type StreamEnd } from './read-events.ts';

/**
 * `path`: below the address of the backend. `headers`: those of the client that the backend gets. `requestId` is sent with the call, so that
 * a model server's log can be compared with ours.
 */
export type BackendCall = {
  backend: Backend;
  path: string;
  headers: Readonly<Record<string, string>>;
  /** Not every server has this route: its absence says nothing about the health of the backend. */
  isOptional?: boolean;
  apiKey: string | undefined;
  requestId: string;
  /** The trace that the backend continues. */
  trace?: TraceContext | undefined;
  body: string;
  room: AnswerRoom;
  signal: AbortSignal;
};

/** Both fail with `BackendError`, or with the reader's error. When `signal` is aborted, the call and its connection end at once. */
export interface CallBackend {
  /** Returns the whole answer, as this body keeps it. After its headers, a pause may last at most `idle_ms`. */
  whole<Whole>(call: BackendCall, body: WholeBody<Whole>): Promise<Whole>;
  /**
   * Passes the data of each event to the reader. The answer proper must begin within `first_token_ms`. From then on, no event may take
   * longer than `idle_ms` (contract.md#q5-time-limits). An error of the reader fails the call unchanged. If a backend does not answer with
   * a stream, the call fails, unless the reader accepts whole answers: then it gets the text, and no event.
   */
  stream(call: BackendCall, reader: StreamReader): Promise<StreamEnd>;
}

export type StreamReader = EventReader & { takeWhole?(text: string): void };

/** Opens connections to all backends. undici's own timeouts for answers are off, because they do not cover a backend that falls silent. */
export function createBackendAgent(connectMs: () => number): Agent {
  let connector = createConnector(connectMs());
  return new Agent({
    ...{ headersTimeout: 0, bodyTimeout: 0 },
    connect(options, callback) {
      if (connector.timeout !== connectMs()) connector = createConnector(connectMs());
      connector.connect(options, callback);
    },
  });
}

function createConnector(timeout: number) {
  return { timeout, connect: buildConnector({ timeout }) };
}

export function createCallBackend({
  agent,
  timeouts,
}: {
  agent: Pick<Dispatcher, 'dispatch'>;
  timeouts: () => Pick<Timeouts, 'firstTokenMs' | 'idleMs'>;
}): CallBackend {
  function expectBytes<Result>({ expectWithin, fail }: Exchange<Result>): void {
    const { idleMs } = timeouts();
    expectWithin(idleMs, () => fail(new BackendError('idle_timeout', `nothing for ${idleMs} ms`)));
  }

  function expectToken<Result>({ expectWithin, fail }: Exchange<Result>, { ms, of }: { ms: number; of: number }): void {
    expectWithin(ms, () => fail(new BackendError('first_token_timeout', `no token within ${of} ms`)));
  }

  return {
    whole: <Whole>(call: BackendCall, body: WholeBody<Whole>) =>
      exchange<Whole>({
        ...{ dispatcher: agent, signal: call.signal, request: requestOf(call, 'application/json') },
        onOpen: (answer) => call.room.readFrom(answer.source),
        readerOf: (head, answer) =>
          refusalOf(call, head, answer) ??
          readWhole(answer, { ...wholeOptions(call, answer), body, onWhole: answer.succeed }),
      }),
    stream(call, reader) {
      const { firstTokenMs } = timeouts();
      const firstTokenBy = performance.now() + firstTokenMs;
      return exchange<StreamEnd>({
        ...{ dispatcher: agent, signal: call.signal, request: requestOf(call, 'text/event-stream') },
        onOpen(answer) {
          call.room.readFrom(answer.source);
          expectToken(answer, { ms: firstTokenMs, of: firstTokenMs });
        },
        readerOf: (head, answer) => refusalOf(call, head, answer) ?? streamReader(head, answer),
      });

      function streamReader(head: Head, answer: Exchange<StreamEnd>): BodyReader {
        const { takeWhole } = reader;
        if (takeWhole !== undefined && isOfType(head, 'application/json')) {
          const onWhole = (text: string) => {
            takeWhole(text);
            answer.succeed('ended');
          };
          return readWhole(answer, { ...wholeOptions(call, answer), body: wholeText(), onWhole });
        }
        if (!isOfType(head, 'text/event-stream'))
          throw new BackendError('unreadable', 'the backend did not answer with an event stream');
        const expectNext = () =>
          reader.begun()
            ? expectBytes(answer)
            : expectToken(answer, { ms: firstTokenBy + answer.pausedMs() - performance.now(), of: firstTokenMs });
        return readEvents({ exchange: answer, reader, expectNext });
      }
    },
  };

  function wholeOptions<Result>({ room }: BackendCall, answer: Exchange<Result>) {
    return { room, onBytes: () => expectBytes(answer) };
  }
}

function requestOf(call: BackendCall, accept: string): Dispatcher.DispatchOptions {
  const { backend, path, apiKey, requestId, trace, body } = call;
  return {
    ...addressOf(backend, path),
    method: 'POST',
    headers: {
      ...call.headers,
      'content-type': 'application/json',
      accept,
      'x-request-id': requestId,
      ...trace,
      ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
    },
    body,
  };
}

/** For every status except 2xx. */
function refusalOf<Result>(call: BackendCall, head: Head, answer: Exchange<Result>): BodyReader | undefined {
  if (head.status < 300) return undefined;
  const { apiKey, backend, isOptional } = call;
  return readRefusal(answer, { ...head, apiKey, isOptional, relayMessages: backend.relayMessages });
}

type Base = { origin: string; pathname: string };

/** Parsing a URL takes as long as everything else for a request. */
const bases = new WeakMap<Backend, Base>();

/** Returns the address of a path of the OpenAI API at this backend. */
export function addressOf(backend: Backend, path: string): { origin: string; path: string } {
  const { origin, pathname } = bases.get(backend) ?? readBase(backend);
  return { origin, path: pathname + path };
}

function readBase(backend: Backend): Base {
  const { origin, pathname } = new URL(backend.url);
  const base = { origin, pathname: pathname.replace(/\/$/, '') };
  bases.set(backend, base);
  return base;
}

function isOfType({ headers }: Head, wanted: string): boolean {
  const type = headers['content-type'];
  return typeof type === 'string' && type.toLowerCase().startsWith(wanted);
}
