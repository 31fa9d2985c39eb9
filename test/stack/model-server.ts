import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { untilListening } from '../../shared/process/start-error.ts';
import { portAdvice } from './free-port.ts';
import { createAnswerCall } from './model-server/answer-call.ts';
import { type Call, createCallList } from './model-server/calls.ts';
import { answerControl } from './model-server/control.ts';
import { endpointsByPath } from './model-server/endpoints.ts';
import { createEngine, type EngineOptions } from './model-server/engine.ts';
import { createFaults, type Fault } from './model-server/faults.ts';
import { isAuthorized, sendError, sendJson } from './model-server/http.ts';
import type { Demo } from './model-server/model/demo-answers.ts';

export type { Call } from './model-server/calls.ts';
export { answerCompletion } from './model-server/completions/answer-completion.ts';
export type { Fault } from './model-server/faults.ts';
export { answerMessages, countedTokensOf } from './model-server/messages/answer-messages.ts';
export { messagesOfAnthropic } from './model-server/messages/read-messages.ts';
export { answerFor, pieces, promptTokensOf, toolArgumentsFor } from './model-server/model/text.ts';
export {
  embeddingBytesWritten,
  embeddingFor,
  embeddingTokensOf,
  writeEmbeddings,
} from './model-server/pooling/embeddings.ts';
export { relevanceOf, rerankTokensOf } from './model-server/pooling/rerank.ts';
export { answerResponse } from './model-server/responses/answer-response.ts';
export { messagesOfResponse } from './model-server/responses/read-response.ts';

export interface ModelServerOptions extends EngineOptions {
  /** Shown as `system_fingerprint` in every reply, so that a test can identify the server. */
  name: string;
  port?: number;
  host?: string;
  /** The models that `GET /v1/models` lists; the endpoints accept any model. Default: the server's name. */
  models?: readonly string[];
  /** From the request to the first token. A whole reply takes as long as its stream would have. */
  firstTokenMs?: number;
  /** Default: a reply is sent at once. */
  tokensPerSecond?: number;
  /** How many tokens of a stream with a pace are sent at once, as with the stream interval of vLLM. Default: 1. */
  tokensPerWrite?: number;
  /** If given, `/v1` requires it as the bearer token. */
  apiKey?: string;
  /** Whether streams are written in pieces that split characters and events. Default: true. */
  splitBytes?: boolean;
  /** How many of the last calls are kept. Default: 100,000. */
  callsKept?: number;
  /** Whether it serves `/v1/messages/count_tokens`. Otherwise that path is unknown. Default: true. */
  countTokens?: boolean;
  /** Answers in plain words, for people. Default: a text with a digest of the messages, for tests. */
  demo?: Demo;
}

export type ModelServer = Awaited<ReturnType<typeof startModelServer>>;

/**
 * A model server with known answers, token counts and faults, which serves the endpoints of OpenAI and Anthropic that vLLM serves.
 * Resolves when it listens. `PUT /control` with a `Fault` makes its endpoints fail, `DELETE /control` ends that; `GET /control/calls` lists
 * the calls, `DELETE /control/calls` removes them.
 */
export async function startModelServer(options: ModelServerOptions) {
  const { name, port: wanted = 0, host = '127.0.0.1', callsKept = 100_000, countTokens = true } = options;
  const calls = createCallList(callsKept);
  const faults = createFaults();
  const answerCall = createAnswerCall(options, { calls, takeFault: faults.take, engine: createEngine(options) });
  const endpoints = endpointsByPath({ countTokens });
  const models = { object: 'list', data: (options.models ?? [name]).map((id) => modelOf(id, name)) };

  async function route(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const [path = '/'] = (req.url ?? '/').split('?', 1);
    const request = `${req.method} ${path}`;
    if (path.startsWith('/control')) return answerControl(req, res, { faults, calls });
    const endpoint = req.method === 'POST' ? endpoints.get(path) : undefined;
    if (endpoint !== undefined) return answerCall(endpoint, req, res);
    if (request === 'GET /health') return sendJson(res, 200, { status: 'ok', name });
    if (request !== 'GET /v1/models') return sendError(res, 404, { message: `Unknown request URL: ${request}` });
    if (!isAuthorized(req, options.apiKey)) return sendError(res, 401, { message: 'Incorrect API key provided.' });
    sendJson(res, 200, models);
  }

  const server = createServer({ keepAliveTimeout: 75_000 }, (req, res) => {
    route(req, res).catch((error: Error) => res.destroy(error)); // a client that left in the middle of its request
  });
  server.listen({ host, port: wanted, backlog: 4_096 });
  await untilListening(server, { name, host, port: wanted, advice: portAdvice });
  const { port } = server.address() as AddressInfo; // a TCP listener has one

  return {
    name,
    port,
    url: `http://${host}:${port}/v1`,
    /** The same as `PUT /control`. With a model, only for calls of that model. */
    fail: (fault: Fault, model?: string): void => faults.set(fault, model),
    /** The same as `DELETE /control`. */
    heal: (model?: string): void => faults.clear(model),
    /** How many connections are in use. Asking closes the idle ones first. */
    async connectionsInUse(): Promise<number> {
      server.closeIdleConnections();
      const { promise, resolve, reject } = Promise.withResolvers<number>();
      server.getConnections((error, count) => (error === null ? resolve(count) : reject(error)));
      return promise;
    },
    /** The kept calls in their present state, oldest first. */
    calls: (): Call[] => calls.list(),
    /** Resolves with the first kept call that matches. Rejects after `withinMs`. */
    waitForCall: (matches: (call: Call) => boolean, withinMs = 30_000) => calls.wait(matches, withinMs),
    async [Symbol.asyncDispose](): Promise<void> {
      if (!server.listening) return;
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function modelOf(id: string, owner: string) {
  return { id, object: 'model', created: 1_700_000_000, owned_by: owner };
}
