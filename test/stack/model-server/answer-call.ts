import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Arrival, Call, CallList } from './calls.ts';
import type { Endpoint, ErrorFields, Question } from './endpoint.ts';
import type { Engine } from './engine.ts';
import type { TakenFault } from './faults.ts';
import { isAuthorized, parseJson, readBody, sendError } from './http.ts';
import { answerInstead, answersInstead, writeSlowHeaders, writeWrongLength } from './misbehave.ts';
import type { Demo } from './model/demo-answers.ts';
import { joinEvents, type Reply, type ReplyStart, untilAborted, wait, writeStream, writeWhole } from './reply.ts';

interface Options {
  name: string;
  firstTokenMs?: number;
  tokensPerSecond?: number;
  apiKey?: string;
  splitBytes?: boolean;
  tokensPerWrite?: number;
  demo?: Demo;
}

/** Answers a call of any endpoint: records it, checks its key and its body, and replies with the fault of the moment. */
export function createAnswerCall(
  options: Options,
  parts: { calls: CallList; takeFault: (model: string) => TakenFault; engine: Engine },
) {
  const { name, apiKey, splitBytes = true, firstTokenMs = 0, tokensPerSecond = Number.POSITIVE_INFINITY } = options;
  const { tokensPerWrite = 1, demo } = options;
  const { calls, takeFault, engine } = parts;
  return async function answerCall(endpoint: Endpoint, req: IncomingMessage, res: ServerResponse): Promise<void> {
    const body = parseJson(await readBody(req));
    const question = endpoint.read(body);
    const call = calls.add(arrivalOf(req, body, endpoint));
    const signal = watchClient(res, call, calls);
    const refuse = (status: number, error: ErrorFields) => {
      calls.change(call, { state: 'failed' });
      sendError(res, status, error, endpoint.errors);
    };
    if (!isAuthorized(req, apiKey, endpoint.keyHeader)) {
      return refuse(401, { message: 'Incorrect API key provided.', code: 'invalid_api_key' });
    }
    if ('refused' in question) return refuse(400, question.refused);
    const { fault, healed } = takeFault(question.model);
    const pace = { firstTokenMs, tokenMs: fault.chunkMs ?? 1_000 / tokensPerSecond, tokensPerWrite };
    const { errors } = endpoint;
    try {
      await engine.enter(signal);
      try {
        if (fault.untilHealed) await untilAborted(healed, signal);
        await reply(question, { res, calls, call, fault, pace, splitBytes, signal, errors }, { name, engine, demo });
      } finally {
        engine.leave();
      }
    } catch (error) {
      if (!signal.aborted) throw error; // otherwise the wait ended because the client left
    }
  };
}

type Server = { name: string; engine: Engine; demo: Demo | undefined };

async function reply(question: Question, begun: ReplyStart, { name: server, engine, demo }: Server): Promise<void> {
  const { calls, call, fault, pace, signal } = begun;
  await wait(fault.latencyMs ?? 0, signal);
  if (answersInstead(fault)) return answerInstead(begun);
  const { cachedTokensOf, computeMs, keep } = engine.openCall();
  const answered = question.answer({
    id: `${server}-${call.id}`,
    server,
    created: Math.floor(Date.now() / 1_000),
    withUsage: !fault.noUsage,
    ignoresLimit: fault.ignoresLimit === true,
    cachedTokensOf,
    demo,
  });
  const { promptTokens, cachedTokens = 0 } = answered;
  calls.change(call, { promptTokens, cachedTokens });
  const firstTokenMs = pace.firstTokenMs + computeMs(promptTokens - cachedTokens);
  await write({ ...begun, answered, pace: { ...pace, firstTokenMs } });
  if (call.state === 'completed') keep();
}

async function write(to: Reply): Promise<void> {
  const { call, fault, answered } = to;
  const misshapen = fault.slowHeadersMs !== undefined || fault.lengthFactor !== undefined;
  if (!misshapen) return call.stream ? writeStream(to) : writeWhole(to);
  const body = call.stream ? joinEvents(answered.events()) : answered.whole();
  // A whole reply is slow first, and a stream has a wrong length first, if a test sets both.
  const isSlow = fault.slowHeadersMs !== undefined && !(call.stream && fault.lengthFactor !== undefined);
  return isSlow ? writeSlowHeaders(to, body) : writeWrongLength(to, body);
}

function arrivalOf(req: IncomingMessage, body: unknown, endpoint: Endpoint): Arrival {
  const { path, streams, keyHeader, ownHeaders = [] } = endpoint;
  const { model, stream } = (typeof body === 'object' && body !== null ? body : {}) as {
    model?: unknown;
    stream?: unknown;
  }; // of any type: the endpoint has refused other bodies
  const requestId = textHeader(req, 'x-request-id');
  const hasKey = keyHeader !== undefined && req.headers[keyHeader] !== undefined;
  const recorded = ownHeaders.map((name) => [name, textHeader(req, name)] as const);
  return {
    path,
    model: typeof model === 'string' ? model : '',
    stream: streams && stream === true,
    body,
    requestId,
    trace: { traceparent: textHeader(req, 'traceparent'), tracestate: textHeader(req, 'tracestate') },
    headers: {
      contentType: req.headers['content-type'],
      hasAuthorization: req.headers.authorization !== undefined || hasKey,
    },
    ownHeaders: Object.fromEntries(recorded),
  };
}

function textHeader(req: IncomingMessage, name: string): string | undefined {
  const value = req.headers[name];
  return typeof value === 'string' ? value : undefined;
}

/** Aborts when the connection ends before the reply, and marks the call as aborted. */
function watchClient(res: ServerResponse, call: Call, calls: CallList): AbortSignal {
  const left = new AbortController();
  res.once('close', () => {
    const unsent = call.state === 'completed' && res.headersSent && !res.writableFinished;
    if (call.state === 'running' || unsent) calls.change(call, { state: 'aborted' });
    left.abort();
  });
  return left.signal;
}
