import { Agent, type Dispatcher } from 'undici';
import type { Backend, Timeouts } from '../../shared/plan-file.ts';
import { BackendError } from './backend-error.ts';
import { classifyFailure, classifyStatus } from './classify-failure.ts';
import { parseEventStream } from './parse-event-stream.ts';
import { createWatchdog, type Watchdog } from './watchdog.ts';

/** `requestId` goes with the call, so that a model server's own log can be read beside ours. */
export type BackendCall = {
  backend: Backend;
  apiKey: string | undefined;
  requestId: string;
  body: string;
  signal: AbortSignal;
};

/** Both fail with `BackendError`; when `signal` is aborted the call ends at once, and its connection with it. */
export interface CallBackend {
  /** The whole answer as text. Once its headers are there, nothing may come for no longer than `idle_ms`. */
  whole(call: BackendCall): Promise<string>;
  /**
   * The data of each event, in lists of those that came at once. The answer proper has to begin within `first_token_ms`
   * (`begun`: whether it has, as whoever reads the events knows); from then on no event may take longer than `idle_ms`.
   * Reading no further ends the call. A backend that answers whole all the same fails, unless there is `takeWhole`: then that
   * is given the text, and no event comes.
   */
  stream(call: BackendCall, begun: () => boolean, takeWhole?: (text: string) => void): AsyncGenerator<string[]>;
}

const wholeBytesMax = 33_554_432;
/** Of what matters little, the body of an error and what follows `[DONE]`, no more is read than comes within this. */
const restBytesMax = 65_536;
const restMs = 1_000;

/** Connections to all backends; each time-out is ours, because no other ends a backend that merely falls silent. */
export function createBackendAgent({ connectMs }: Pick<Timeouts, 'connectMs'>): Agent {
  return new Agent({ connect: { timeout: connectMs }, headersTimeout: 0, bodyTimeout: 0 });
}

export function createCallBackend(parts: { agent: Agent; timeouts: Timeouts }): CallBackend {
  const { firstTokenMs, idleMs } = parts.timeouts;
  const lateToken = () => new BackendError('first_token_timeout', `no token within ${firstTokenMs} ms`);
  const silent = () => new BackendError('idle_timeout', `nothing for ${idleMs} ms`);

  async function post({ backend, apiKey, requestId, body }: BackendCall, accept: string, signal: AbortSignal) {
    const response = await parts.agent.request({
      ...endpointOf(backend, '/chat/completions'),
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept,
        'x-request-id': requestId,
        ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
      },
      body,
      signal,
    });
    // Whoever reads the body hears of its failure; one that is left half-read has nobody, and would end the process.
    response.body.on('error', () => {});
    if (response.statusCode >= 200 && response.statusCode < 300) return response;
    const { statusCode: status, headers } = response;
    const text = await readErrorText(response.body);
    throw classifyStatus({ status, headers, body: text, apiKey, relayMessages: backend.relayMessages });
  }

  return {
    async whole(call) {
      using watchdog = createWatchdog([call.signal]);
      try {
        const response = await post(call, 'application/json', watchdog.signal);
        return await readText(response.body, () => watchdog.expectWithin(idleMs, silent));
      } catch (error) {
        throw reasonOf(watchdog) ?? classifyFailure(error);
      }
    },
    async *stream(call, begun, takeWhole) {
      using watchdog = createWatchdog([call.signal]);
      const firstTokenBy = performance.now() + firstTokenMs;
      watchdog.expectWithin(firstTokenMs, lateToken);
      try {
        const response = await post(call, 'text/event-stream', watchdog.signal);
        if (takeWhole !== undefined && isOfType(response, 'application/json')) {
          return takeWhole(await readText(response.body, () => watchdog.expectWithin(idleMs, silent)));
        }
        requireEventStream(response);
        for await (const events of readEvents(response.body)) {
          watchdog.relax(); // what whoever reads takes for it is not the backend's silence
          yield events;
          if (begun()) watchdog.expectWithin(idleMs, silent);
          else watchdog.expectWithin(firstTokenBy - performance.now(), lateToken);
        }
      } catch (error) {
        throw reasonOf(watchdog) ?? classifyFailure(error);
      }
    },
  };
}

/** A call that the watchdog ended fails by the watchdog's reason, whatever the connection made of it. */
function reasonOf({ signal }: Watchdog): BackendError | undefined {
  return signal.aborted && signal.reason instanceof BackendError ? signal.reason : undefined;
}

/** Where a path of the OpenAI API is at this backend. */
export function endpointOf({ url }: Backend, path: string): { origin: string; path: string } {
  const { origin, pathname } = new URL(url);
  return { origin, path: pathname.replace(/\/$/, '') + path };
}

/** After `[DONE]` what little may follow is read away, so that the connection can serve the next call. */
async function* readEvents(body: Dispatcher.ResponseData['body']): AsyncGenerator<string[]> {
  let done = false;
  try {
    for await (const events of parseEventStream(body.iterator({ destroyOnReturn: false }))) {
      done = events.includes('[DONE]');
      yield events;
    }
  } finally {
    if (done) readAway(body);
    else body.destroy();
  }
}

/** Mostly there is nothing left, and it is over before anybody looks at the time. */
function readAway(body: Dispatcher.ResponseData['body']): void {
  if (body.closed) return;
  const late = setTimeout(() => body.destroy(), restMs);
  body.once('close', () => clearTimeout(late));
  body.dump({ limit: restBytesMax }).catch(() => {});
}

function isOfType({ headers }: Dispatcher.ResponseData, wanted: string): boolean {
  const type = headers['content-type'];
  return typeof type === 'string' && type.toLowerCase().startsWith(wanted);
}

function requireEventStream(response: Dispatcher.ResponseData): void {
  if (isOfType(response, 'text/event-stream')) return;
  // A body that nobody reads would keep its connection for ever.
  response.body.destroy();
  throw new BackendError('unreadable', 'the backend did not answer with an event stream');
}

/** What comes at once of an error's body. The status says enough without it, so nothing about it is a failure. */
async function readErrorText(body: Dispatcher.ResponseData['body']): Promise<string> {
  const late = setTimeout(() => body.destroy(), restMs);
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of body) {
      chunks.push(chunk);
      bytes += chunk.byteLength;
      if (bytes > restBytesMax) break;
    }
  } catch {
    // It broke off, or took too long.
  } finally {
    clearTimeout(late);
  }
  return Buffer.concat(chunks).toString();
}

async function readText(body: AsyncIterable<Uint8Array>, onBytes: () => void): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  onBytes();
  for await (const chunk of body) {
    onBytes();
    bytes += chunk.byteLength;
    if (bytes > wholeBytesMax) throw new BackendError('unreadable', `the answer is larger than ${wholeBytesMax} bytes`);
    chunks.push(chunk);
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks));
  } catch (error) {
    throw new BackendError('unreadable', 'the answer is not UTF-8', { cause: error });
  }
}
