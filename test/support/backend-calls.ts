import type { Backend, Timeouts } from '../../shared/process/plan-file.ts';
import { createChunkConverter } from '../../workers/chat-answers/convert-chunks.ts';
import { type BackendCall, createBackendAgent, createCallBackend } from '../../workers/exchange/call-backend.ts';

export const messages = [{ role: 'user', content: 'Grüße, 東京!' }];

/** Long enough never to be met by a backend that answers. */
const patient: Timeouts = {
  connectMs: 20_000,
  firstTokenMs: 20_000,
  idleMs: 20_000,
  requestMs: 60_000,
  queueMs: 20_000,
};

/** Calls of one backend as a worker makes them; `asked` ends each, whatever the backend does. */
export function openBackend(
  url: string,
  timeouts: Partial<Timeouts> = {},
  asked: AbortSignal = AbortSignal.timeout(30_000),
) {
  const agent = createBackendAgent({ ...patient, ...timeouts });
  const callBackend = createCallBackend({ agent, timeouts: { ...patient, ...timeouts } });
  const backend: Backend = { url, location: 'on-prem' };

  function call(stream: boolean, signal: AbortSignal): BackendCall {
    const options = stream ? { stream, stream_options: { include_usage: true } } : {};
    const body = JSON.stringify({ model: 'm', messages, ...options });
    return { backend, apiKey: undefined, requestId: 'req_1', body, signal };
  }

  return {
    agent,
    callBackend,
    call,
    whole: (signal = asked) => callBackend.whole(call(false, signal)),
    /** Gives `onReady` what of the stream is ready for the client, event by event, to `[DONE]` or until it answers true. */
    stream:
      (signal = asked): Stream =>
      (onReady) => {
        const converter = createChunkConverter({ model: 'm' });
        const take = (data: string) => onReady(converter.take(data)) === true;
        return callBackend.stream(call(true, signal), { take, begun: converter.begun });
      },
    [Symbol.asyncDispose]: () => agent.destroy(),
  };
}

type Stream = (onReady: (text: string) => unknown) => Promise<unknown>;

/** Reads a stream for as long as it goes: what came, and how it ended. */
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
