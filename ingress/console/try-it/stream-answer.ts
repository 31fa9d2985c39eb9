import { EventSourceParserStream } from 'eventsource-parser/stream';
import { ApiFailure, brokenOff, failureOf, unreachable } from '../api/api-failure.ts';
import type { ChatRequest } from './chat-request.ts';

/** The answer so far. Times are in milliseconds since the request was sent. */
export type Answer = {
  text: string;
  firstTokenMs?: number;
  totalMs?: number;
  usage?: { prompt_tokens: number; completion_tokens: number; total_tokens: number };
  finishReason?: string;
  requestId?: string;
};

type Chunk = {
  choices?: { delta?: { content?: string | null }; finish_reason?: string | null }[];
  usage?: NonNullable<Answer['usage']> | null;
  error?: { code?: string; message?: string };
};

type Call = { baseUrl: string; key: string; request: ChatRequest; signal: AbortSignal; show: (answer: Answer) => void };

const bufferCharactersMax = 1_000_000;

/**
 * Requests an answer and shows it as it arrives. Fails with `ApiFailure` if the request is refused, the connection is lost (the text so
 * far stays visible), or the stream ends without `[DONE]`; or with the reason of its signal.
 */
export async function streamAnswer({ baseUrl, key, request, signal, show }: Call): Promise<void> {
  const sentAt = performance.now();
  const sinceSent = () => Math.round(performance.now() - sentAt);
  const response = await fetch(`${baseUrl}/v1/chat/completions`, {
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
  const requestId = response.headers.get('x-request-id');
  if (!response.ok || body === null) throw failureOf(status, await response.text().catch(() => ''), requestId);

  let answer: Answer = { text: '', ...(requestId !== null && { requestId }) };
  try {
    for await (const { data } of eventsOf(body)) {
      if (data === '[DONE]') return show({ ...answer, totalMs: sinceSent() });
      const chunk = JSON.parse(data) as Chunk; // the service's own frame
      if (chunk.error !== undefined) throw interrupted(chunk.error, requestId);
      answer = withChunk(answer, chunk, sinceSent);
      show(answer);
    }
  } catch (error) {
    signal.throwIfAborted();
    throw error instanceof ApiFailure ? error : brokenOff(status, requestId);
  }
  throw brokenOff(status, requestId);
}

function interrupted({ code = '', message = '' }: NonNullable<Chunk['error']>, requestId: string | null): ApiFailure {
  return new ApiFailure(message, { code, status: 200, requestId: requestId ?? undefined });
}

function withChunk(answer: Answer, { choices, usage }: Chunk, sinceSent: () => number): Answer {
  const [choice] = choices ?? [];
  const text = choice?.delta?.content ?? '';
  return {
    ...answer,
    text: answer.text + text,
    ...(text !== '' && answer.firstTokenMs === undefined && { firstTokenMs: sinceSent() }),
    ...(usage && { usage }),
    ...(choice?.finish_reason && { finishReason: choice.finish_reason }),
  };
}

async function* eventsOf(body: ReadableStream<Uint8Array<ArrayBuffer>>) {
  const reader = body
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream({ maxBufferSize: bufferCharactersMax }))
    .getReader();
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
  } finally {
    await reader.cancel().catch(() => {});
  }
}
