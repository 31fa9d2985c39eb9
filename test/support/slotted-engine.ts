import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

type Call = { question: string; startedAt: number; outcome: 'answered' | 'refused' | 'poisoned' | 'silent' };

export interface SlottedEngine extends AsyncDisposable {
  readonly url: string;
  calls(): readonly Call[];
  /** From now on it fails each request with 500, or no longer. */
  break(isBroken: boolean): void;
  /** Its model is loaded from now on. */
  load(): void;
}

/** Words of a question that this engine cannot digest, and on which it never answers. */
export const poison = 'POISON';
export const silence = 'SILENCE';

/** How engines say that they are full. */
export const busyAnswers: Readonly<Record<string, (response: ServerResponse) => unknown>> = {
  '429 of TGI': (response) => response.writeHead(429).end('{"error":"Model is overloaded","error_type":"overloaded"}'),
  '429 with a Retry-After': (response) =>
    response
      .writeHead(429, { 'retry-after-ms': '300' })
      .end('{"error":{"message":"Rate limit reached","type":"requests"}}'),
  '503 of vLLM': (response) =>
    response.writeHead(503).end(
      JSON.stringify({
        error: {
          message:
            'The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.',
          ...{ type: 'Service Unavailable', param: null, code: 503 },
        },
      }),
    ),
  '503 of SGLang in a 200': (response) =>
    response
      .writeHead(200, { 'content-type': 'text/event-stream' })
      .end(
        'data: {"error":{"message":"The request queue is full.","type":"ServiceUnavailable","code":503}}\n\ndata: [DONE]\n\n',
      ),
  '529 of Dynamo': (response) =>
    response.writeHead(529).end('{"message":"Service overloaded","type":"overloaded","code":529}'),
};

type Options = {
  slots?: number;
  answerMs?: number;
  whenFull?: (response: ServerResponse) => unknown;
  isLoading?: boolean;
};

/** A model server with slots, which refuses what it has no room for, as engines do. It streams the answer `Hello`. */
export async function startSlottedEngine(options: Options = {}): Promise<SlottedEngine> {
  const {
    slots = Number.POSITIVE_INFINITY,
    answerMs = 0,
    whenFull = (response) => response.writeHead(500).end(),
  } = options;
  const calls: Call[] = [];
  let running = 0;
  let isBroken = false;
  let isLoading = options.isLoading ?? false;

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = Buffer.concat(await request.toArray()).toString();
    if (request.method === 'GET') return void response.end('{"object":"list","data":[]}');
    const question = String(JSON.parse(body).messages?.at(-1)?.content);
    const call: Call = { question, startedAt: performance.now(), outcome: 'answered' };
    calls.push(call);
    if (isLoading || running >= slots) {
      call.outcome = 'refused';
      if (isLoading)
        response.writeHead(503).end('{"error":{"message":"Loading model","type":"unavailable_error","code":503}}');
      else whenFull(response);
    } else if (isBroken || question.includes(poison)) {
      call.outcome = 'poisoned';
      response.writeHead(500).end('{"error":{"message":"EngineCore died","type":"server_error","code":500}}');
    } else if (question.includes(silence)) {
      call.outcome = 'silent';
    } else {
      running++;
      await sleep(answerMs);
      running--;
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(events);
    }
  }

  const server = createServer((request, response) => void answer(request, response)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // a TCP listener has one
  return {
    url: `http://127.0.0.1:${port}/v1`,
    calls: () => calls,
    break(broken) {
      isBroken = broken;
    },
    load() {
      isLoading = false;
    },
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

const events = [
  { choices: [{ index: 0, delta: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }] },
  { choices: [], usage: { prompt_tokens: 7, completion_tokens: 1, total_tokens: 8 } },
]
  .map(
    (event) =>
      `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', ...event })}\n\n`,
  )
  .concat('data: [DONE]\n\n')
  .join('');
