import type { Dispatcher } from 'undici';
import { BackendError } from '../../shared/endpoints/answers/backend-error.ts';
import type { QueuedCall } from '../../shared/jobs/inference-job.ts';
import type { TokenUsage } from '../../shared/jobs/replies.ts';
import { createCallBackend } from '../../workers/backend-client/call-backend.ts';
import { answerStream } from '../../workers/failover/answer-request.ts';
import { roomFor } from '../support/answer-room.ts';
import { require } from './search/fuzz-target.ts';

export const apiKey = 'backend-key-4711-0815';
export const model = 'small-chat';
const outputTokensMax = 1_000;
const body = '{"messages":[{"role":"user","content":"Hello"}]}';
const timeouts = { connectMs: 60_000, firstTokenMs: 60_000, idleMs: 60_000, requestMs: 60_000, queueMs: 60_000 };
const backend = { url: 'http://127.0.0.1:9/v1', location: 'on-prem' } as const;

export const beginsAsJson = (bytes?: Uint8Array) => bytes?.[0] === 0x7b;

/** The text sent to the client, and how it ended: `done`, or the outcome of a failure. */
export type AnswerEnd = { sent: string; end: string };
export type Pieces = readonly Uint8Array[];

/** Requires that the client gets the same, whether the bytes come at once or in pieces. Returns how it ended. */
export async function bothWays(
  whole: Buffer,
  pieces: Pieces,
  answer: (pieces: Pieces) => Promise<AnswerEnd>,
): Promise<string> {
  const [one, other] = [await answer([whole]), await answer(pieces)];
  require(one.end === other.end, `${one.end}, but in pieces ${other.end}`);
  const [sent, inPieces] = [withoutTimes(one.sent), withoutTimes(other.sent)];
  require(sent === inPieces, `the client gets ${sent.slice(0, 500)}, but in pieces ${inPieces.slice(0, 500)}`);
  return one.end;
}

/** The service adds a time that the backend left out, and a second can end between two answers. */
const withoutTimes = (sent: string) => sent.replace(/"created(?:_at)?":\d+/g, '"created":0');

/** `accepted`, or the outcome of a failure. */
export async function endOf(answer: () => Promise<void>): Promise<string> {
  try {
    await answer();
    return 'accepted';
  } catch (error) {
    if (!(error instanceof BackendError)) throw error;
    require(!error.message.includes(apiKey), "the message of a failure contains the backend's key");
    return error.fault;
  }
}

/** Answers a request for a stream. `checkEvents` gets what was sent to the client, and whether the answer was complete. */
export async function streamTo(
  job: QueuedCall,
  pieces: Pieces,
  checkEvents: (sent: string, isWhole: boolean) => void,
): Promise<AnswerEnd> {
  let sent = '';
  let begun = 0;
  const reply = {
    async chunk(text: string) {
      require(begun === 1, 'text was sent before the first token');
      sent += text;
    },
  };
  const end = await endOf(async () => {
    const onFirstToken = () => void begun++;
    const { usage, finalEvents = '' } = await answerStream({
      ...answering(pieces, job),
      reply,
      onCalling() {},
      onFirstToken,
    });
    checkUsage(usage);
    if (finalEvents !== '') await reply.chunk(finalEvents);
  });
  require(sent === '' || sent.endsWith('\n\n'), 'the last event is not complete');
  checkEvents(sent, end === 'accepted');
  return { sent, end };
}

export function checkUsage({ promptTokens, completionTokens, cachedTokens }: TokenUsage): void {
  for (const tokens of [promptTokens, completionTokens, cachedTokens]) {
    require(Number.isSafeInteger(tokens) && tokens >= 0, `${tokens} tokens are charged`);
  }
  require(completionTokens <= outputTokensMax, 'more than the output limit is charged');
  require(cachedTokens <= promptTokens, 'more is cached than was sent');
}

export function callOf(endpoint: string, stream: boolean): QueuedCall {
  return {
    ...{
      requestId: 'req_1',
      account: 'user:alice',
      keyId: 'key_1',
      model,
      tier: 'guest',
      stream,
      outputTokensMax,
      limitFields: [],
      payload: body,
    },
    ...{ endpoint, includeUsage: false, assembled: false, choices: 1, promptEstimate: 0, earlierRuns: [] },
  };
}

/** The unchanged call of a backend, on a connection that delivers these pieces. */
export function answering(pieces: Pieces, job: QueuedCall) {
  const callBackend = createCallBackend({ agents: { of: () => fakeAgent(pieces) }, timeouts: () => timeouts });
  const signal = new AbortController().signal;
  return {
    job,
    callBackend,
    call: {
      backend,
      path: job.endpoint.replace('/v1', ''),
      headers: {},
      apiKey,
      requestId: job.requestId,
      body,
      room: roomFor(),
      signal,
      ...{ onHead() {}, onToken() {}, isBusy: () => false },
    },
  };
}

/** Delivers these pieces, one in each turn of the event loop, until it is aborted. */
function fakeAgent(pieces: Pieces): Pick<Dispatcher, 'dispatch'> {
  const type = beginsAsJson(pieces[0]) ? 'application/json' : 'text/event-stream';
  const controller = {
    aborted: false,
    paused: false,
    reason: null,
    pause() {
      controller.paused = true;
    },
    resume() {
      controller.paused = false;
    },
    abort() {
      controller.aborted = true;
    },
  };
  async function bring(handler: Dispatcher.DispatchHandler): Promise<void> {
    handler.onRequestStart?.(controller, {});
    handler.onResponseStart?.(controller, 200, { 'content-type': type });
    for (const piece of pieces) {
      await null;
      while (controller.paused) await new Promise(setImmediate);
      if (controller.aborted) return;
      handler.onResponseData?.(controller, Buffer.from(piece));
    }
    handler.onResponseEnd?.(controller, {});
  }
  return {
    dispatch(_options, handler) {
      void bring(handler);
      return true;
    },
  };
}
