import type { IncomingMessage, ServerResponse } from 'node:http';
import { answerChat, type Chat, chatSchema } from './model-server-answer.ts';
import type { Arrival, Call, CallList } from './model-server-calls.ts';
import type { Fault } from './model-server-faults.ts';
import { formatEvents, formatReply } from './model-server-format.ts';
import { isAuthorized, parseJson, readBody, sendError } from './model-server-http.ts';
import { answerInstead, answersInstead, writeSlowHeaders, writeWrongLength } from './model-server-misbehave.ts';
import { type Reply, wait, writeStream, writeWhole } from './model-server-reply.ts';

interface Options {
  name: string;
  firstTokenMs?: number;
  tokensPerSecond?: number;
  apiKey?: string;
  splitBytes?: boolean;
}

/** `POST /v1/chat/completions`. */
export function createChatRoute(options: Options, parts: { calls: CallList; takeFault: (model: string) => Fault }) {
  const { name, apiKey, splitBytes = true, firstTokenMs = 0, tokensPerSecond = Number.POSITIVE_INFINITY } = options;
  const { calls, takeFault } = parts;
  return async function answerChatCall(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const body = parseJson(await readBody(req));
    const parsed = chatSchema.safeParse(body);
    const call = calls.add(arrivalOf(req, body));
    const signal = watchClient(res, call, calls);
    const refuse = (status: number, error: { message: string; param?: string; code?: string }) => {
      calls.change(call, { state: 'failed' });
      sendError(res, status, error);
    };
    if (!isAuthorized(req, apiKey)) {
      return refuse(401, { message: 'Incorrect API key provided.', code: 'invalid_api_key' });
    }
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      const param = issue?.path.join('.') || 'body';
      return refuse(400, { message: `Invalid '${param}': ${issue?.message}.`, param });
    }
    const fault = takeFault(parsed.data.model);
    const pace = { firstTokenMs, tokenMs: fault.chunkMs ?? 1_000 / tokensPerSecond };
    try {
      await reply(parsed.data, { res, calls, call, fault, pace, splitBytes, signal }, name);
    } catch (error) {
      if (!signal.aborted) throw error; // otherwise the wait ended because the client left
    }
  };
}

async function reply(chat: Chat, to: Reply, server: string): Promise<void> {
  const { calls, call, fault, signal } = to;
  await wait(fault.latencyMs ?? 0, signal);
  if (answersInstead(fault)) return answerInstead(to);
  const unlimited = { max_tokens: undefined, max_completion_tokens: undefined };
  const answer = answerChat({ ...chat, ...(fault.ignoresLimit && unlimited) });
  calls.change(call, { promptTokens: answer.promptTokens });
  const created = Math.floor(Date.now() / 1_000);
  const replyName = { id: `chatcmpl-${server}-${call.id}`, server, model: chat.model, created };
  if (!chat.stream) {
    const json = formatReply(answer, replyName, !fault.noUsage);
    if (fault.slowHeadersMs !== undefined) return writeSlowHeaders(to, json, answer.completionTokens);
    if (fault.lengthFactor !== undefined) return writeWrongLength(to, json);
    return writeWhole(to, json, answer.completionTokens);
  }
  const withUsage = chat.stream_options?.include_usage === true && !fault.noUsage;
  const events = formatEvents(answer, replyName, withUsage);
  if (fault.slowHeadersMs === undefined && fault.lengthFactor === undefined) return writeStream(to, events);
  const body = Array.from(events, ({ text }) => text).join('');
  if (fault.lengthFactor !== undefined) return writeWrongLength(to, body);
  return writeSlowHeaders(to, body, answer.completionTokens);
}

function arrivalOf(req: IncomingMessage, body: unknown): Arrival {
  const { model, stream } = (typeof body === 'object' && body !== null ? body : {}) as {
    model?: unknown;
    stream?: unknown;
  }; // checked below
  const requestId = req.headers['x-request-id'];
  return {
    model: typeof model === 'string' ? model : '',
    stream: stream === true,
    body,
    requestId: typeof requestId === 'string' ? requestId : undefined,
    headers: {
      contentType: req.headers['content-type'],
      hasAuthorization: req.headers.authorization !== undefined,
    },
  };
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
