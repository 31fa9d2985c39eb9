import { EventSourceParserStream } from 'eventsource-parser/stream';
import { ApiFailure, brokenOff, failureOf, unreachable } from '../api/api-failure.ts';
import type { Step, Tokens, TriedEndpoint } from './tried-endpoint.ts';

/** The answer so far. Times are in milliseconds since the request was sent. */
export type Answer = {
  text: string;
  firstTokenMs?: number;
  totalMs?: number;
  tokens: Tokens;
  finishReason?: string;
  requestId?: string;
};

export type Call = {
  baseUrl: string;
  docsUrl: string;
  key: string;
  endpoint: TriedEndpoint;
  request: object;
  signal: AbortSignal;
  show: (answer: Answer) => unknown;
};

const bufferCharactersMax = 1_000_000;

/**
 * Requests an answer and shows it as it arrives. Fails with `ApiFailure` if the request is refused, the connection is lost (the text so
 * far stays visible), or the answer ends without its last event; or with the reason of its signal.
 */
export async function streamAnswer({ baseUrl, docsUrl, key, endpoint, request, signal, show }: Call): Promise<void> {
  const sentAt = performance.now();
  const sinceSent = () => Math.round(performance.now() - sentAt);
  const response = await fetch(`${baseUrl}${endpoint.path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(request),
    credentials: 'omit',
    signal,
  }).catch(() => {
    signal.throwIfAborted();
    throw unreachable();
  });
  const { status, body } = response;
  const header = (name: string) => response.headers.get(name);
  const requestId = header('x-request-id');
  if (!response.ok || body === null) throw failureOf({ status, body: await response.text().catch(() => ''), header });

  let answer: Answer = { text: '', tokens: {}, ...(requestId !== null && { requestId }) };
  try {
    for await (const data of endpoint.isStreamed ? eventsOf(body) : [await response.text()]) {
      const step = endpoint.read(data);
      if (step.failure !== undefined) throw interrupted(step.failure, { docsUrl, requestId });
      answer = withStep(answer, step, sinceSent);
      show(answer);
      if (step.isEnd) return;
    }
  } catch (error) {
    signal.throwIfAborted();
    throw error instanceof ApiFailure ? error : brokenOff(status, requestId);
  }
  throw brokenOff(status, requestId);
}

type Interruption = { docsUrl: string; requestId: string | null };

/** Its status was sent before it failed, so the status says nothing about it. */
function interrupted(failure: NonNullable<Step['failure']>, { docsUrl, requestId }: Interruption): ApiFailure {
  const { code = '', message = '' } = failure;
  const helpUrl = code === '' ? undefined : `${docsUrl}/errors#${code}`;
  return new ApiFailure(message, { code, status: 0, requestId: requestId ?? undefined, helpUrl });
}

function withStep(answer: Answer, { text = '', tokens, finishReason, isEnd }: Step, sinceSent: () => number): Answer {
  return {
    ...answer,
    text: answer.text + text,
    tokens: { ...answer.tokens, ...tokens },
    ...(text !== '' && answer.firstTokenMs === undefined && { firstTokenMs: sinceSent() }),
    ...(finishReason && { finishReason }),
    ...(isEnd && { totalMs: sinceSent() }),
  };
}

/** The data of each event. Every event names its type in its data, too. */
async function* eventsOf(body: ReadableStream<Uint8Array<ArrayBuffer>>) {
  const reader = body
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream({ maxBufferSize: bufferCharactersMax }))
    .getReader();
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value.data;
  } finally {
    await reader.cancel().catch(() => {});
  }
}
