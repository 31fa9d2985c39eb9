import { chatKind } from '../../shared/endpoints/chat/chat.ts';
import { createChunkConverter } from '../../shared/endpoints/chat-stream/convert-chunks.ts';
import { createBackendAgents } from '../../shared/fleet/backend-agents.ts';
import type { Backend, Timeouts } from '../../shared/plan-file/plan-file.ts';
import { type BackendCall, createCallBackend } from '../../workers/backend-client/call-backend.ts';
import { wholeText } from '../../workers/backend-client/read-body.ts';
import { roomFor } from './answer-room.ts';
import { streamOptions } from './stream-options.ts';

export const messages = [{ role: 'user', content: 'Grüße, 東京!' }];

/** Long enough that a backend that answers never reaches it. */
const patient: Timeouts = {
  connectMs: 20_000,
  firstTokenMs: 20_000,
  idleMs: 20_000,
  requestMs: 60_000,
  queueMs: 20_000,
};

/** Calls of one backend as a worker makes them. `asked` aborts each, whichever state the backend is in. */
export function openBackend(
  url: string,
  timeouts: Partial<Timeouts> = {},
  asked: AbortSignal = AbortSignal.timeout(30_000),
  files: Pick<Backend, 'caFile'> = {},
) {
  const agents = createBackendAgents({ connectMs: () => ({ ...patient, ...timeouts }).connectMs, onUnreadable() {} });
  const callBackend = createCallBackend({ agents, timeouts: () => ({ ...patient, ...timeouts }) });
  const backend: Backend = { url, location: 'on-prem', ...files };

  function call(stream: boolean, signal: AbortSignal): BackendCall {
    const options = stream ? { stream, stream_options: { include_usage: true } } : {};
    const body = JSON.stringify({ model: 'm', messages, ...options });
    const sent = { path: '/chat/completions', headers: {}, apiKey: undefined, requestId: 'req_1', body };
    return { backend, ...sent, room: roomFor(), signal, onHead() {}, onToken() {}, isBusy: () => false };
  }

  return {
    agent: agents.of(backend),
    callBackend,
    call,
    whole: (signal = asked) => callBackend.whole(call(false, signal), wholeText()),
    /**
     * Passes each part of the stream that is ready for the client to `onReady`, event by event, until `[DONE]` or until it returns true.
     */
    stream:
      (signal = asked): Stream =>
      (onReady) => {
        const converter = createChunkConverter(chatKind, streamOptions({ model: 'm' }));
        const take = (data: string) => onReady(converter.take(data)) === true;
        const hasText = () => converter.written().text !== '';
        const reader = { isWhole: false, take, takeWhole() {}, begun: converter.begun, hasText };
        return callBackend.stream(call(true, signal), reader);
      },
    [Symbol.asyncDispose]: () => agents[Symbol.asyncDispose](),
  };
}

type Stream = (onReady: (text: string) => unknown) => Promise<unknown>;

/** Reads a stream to its end. Returns the text received and the error. */
export async function readThrough(stream: Stream): Promise<{ text: string; error: unknown }> {
  let text = '';
  try {
    await stream((ready) => {
      text += ready;
    });
    return { text, error: undefined };
  } catch (error) {
    return { text, error };
  }
}
