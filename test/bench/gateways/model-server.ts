import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { modelName } from './gateway.ts';

// The one model server behind every row, with as little overhead as possible: the simulated one of `test/stack` handles faults, keeps
// complete bodies, and costs several times as much as the measured proxies. It answers at once, or at the pace of the question:
// `Say 60 tokens, 20 a second.` Each token of a stream with a pace is the time when it was sent, in milliseconds of the clock that
// all processes of the machine share. `GET /calls` lists the calls since the last `DELETE /calls`, which lists them as well.

const promptTokens = 10;
const tokensUnlessAsked = 5;
const callsKept = 1_000_000;
const dimensions = 1_024;
const vector = Buffer.from(Float32Array.from({ length: dimensions }, (_, place) => Math.sin(place)).buffer).toString(
  'base64',
);

/** What `GET /v1/models` and all other paths answer. SMG sends a request only to servers that list its model. */
const modelList = {
  object: 'list',
  data: [{ id: modelName, object: 'model', created: 1_700_000_000, owned_by: 'bench' }],
};

const chatSchema = z.object({
  model: z.string(),
  stream: z.boolean().nullish(),
  stream_options: z.object({ include_usage: z.boolean().nullish() }).nullish(),
  messages: z.array(z.object({ content: z.unknown() })),
});
type Chat = z.infer<typeof chatSchema>;
type Wish = { tokens: number; perSecond: number };

/** `at`: Unix milliseconds. `tokens`: of the prompt and of the sent answer. */
type Call = { id: string; at: number; tokens: number };
let calls: Call[] = [];

const server = createServer({ keepAliveTimeout: 75_000 }, (req, res) => {
  const parts: Buffer[] = [];
  req.on('data', (part: Buffer) => parts.push(part));
  req.on('end', () => {
    answer(req, res, Buffer.concat(parts).toString()).catch((error: Error) => res.destroy(error));
  });
});

async function answer(req: IncomingMessage, res: ServerResponse, text: string): Promise<void> {
  if (req.url === '/calls') return answerCalls(req, res);
  if (req.method !== 'POST') return sendJson(res, modelList);
  if (req.url === '/v1/embeddings') return answerEmbedding(req, res);
  const chat = chatSchema.parse(JSON.parse(text));
  const wish = wishOf(String(chat.messages.at(-1)?.content));
  const call = noteCall(req);
  if (chat.stream !== true) {
    call.tokens += wish.tokens;
    return sendJson(res, wholeOf(chat, wish.tokens));
  }
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  if (wish.perSecond === 0) {
    call.tokens += wish.tokens;
    res.end(streamAtOnce(chat, wish.tokens));
  } else await streamPaced(res, chat, { wish, call });
}

/** Its vector is usual for a small model, in the format that OpenAI's packages ask for. */
function answerEmbedding(req: IncomingMessage, res: ServerResponse): void {
  noteCall(req);
  const usage = { prompt_tokens: promptTokens, total_tokens: promptTokens };
  const data = [{ object: 'embedding', index: 0, embedding: vector }];
  sendJson(res, { object: 'list', data, model: 'small-embed', usage });
}

function noteCall(req: IncomingMessage): Call {
  const call = { id: String(req.headers['x-request-id'] ?? ''), at: Date.now(), tokens: promptTokens };
  if (calls.length < callsKept) calls.push(call);
  return call;
}

function answerCalls(req: IncomingMessage, res: ServerResponse): void {
  const seen = calls;
  if (req.method === 'DELETE') calls = [];
  sendJson(res, { calls: seen.map(({ id, at, tokens }) => [id, at, tokens]) });
}

function wishOf(question: string): Wish {
  const [, tokens, perSecond] = /Say (\d+) tokens(?:, (\d+) a second)?/.exec(question) ?? [];
  return { tokens: Number(tokens ?? tokensUnlessAsked), perSecond: Number(perSecond ?? 0) };
}

async function streamPaced(res: ServerResponse, chat: Chat, { wish, call }: { wish: Wish; call: Call }) {
  const left = new AbortController();
  res.once('close', () => left.abort());
  const [before, after] = chunkAround(chat.model);
  const startedAt = now();
  for (let sent = 0; sent < wish.tokens && !left.signal.aborted; sent++) {
    const wait = startedAt + (1_000 * sent) / wish.perSecond - now();
    if (wait > 0) await sleep(wait, undefined, { signal: left.signal }).catch(() => {});
    if (left.signal.aborted) return;
    call.tokens += 1;
    res.write(`${before} ${now().toFixed(3)}${after}`);
  }
  res.end(endOf(chat, wish.tokens));
}

function streamAtOnce(chat: Chat, tokens: number): string {
  const [before, after] = chunkAround(chat.model);
  return `${before} token${after}`.repeat(tokens) + endOf(chat, tokens);
}

function chunkAround(model: string): [string, string] {
  const chunk = event(model, [{ index: 0, delta: { role: 'assistant', content: '@' }, finish_reason: null }]);
  const at = chunk.indexOf('@');
  return [chunk.slice(0, at), chunk.slice(at + 1)];
}

function endOf({ model, stream_options: options }: Chat, tokens: number): string {
  const finish = event(model, [{ index: 0, delta: {}, finish_reason: 'stop' }]);
  const usage = options?.include_usage === true ? event(model, [], usageOf(tokens)) : '';
  return `${finish}${usage}data: [DONE]\n\n`;
}

function event(model: string, choices: object[], usage?: object): string {
  const head = { id: 'chatcmpl-bench', object: 'chat.completion.chunk', created: 1_700_000_000, model };
  return `data: ${JSON.stringify({ ...head, choices, ...(usage && { usage }) })}\n\n`;
}

function wholeOf({ model }: Chat, tokens: number): object {
  const message = { role: 'assistant', content: ' token'.repeat(tokens) };
  return {
    ...{ id: 'chatcmpl-bench', object: 'chat.completion', created: 1_700_000_000, model },
    ...{ choices: [{ index: 0, message, logprobs: null, finish_reason: 'stop' }], usage: usageOf(tokens) },
  };
}

function usageOf(tokens: number) {
  return { prompt_tokens: promptTokens, completion_tokens: tokens, total_tokens: promptTokens + tokens };
}

function sendJson(res: ServerResponse, value: object): void {
  const bytes = Buffer.from(JSON.stringify(value));
  res.writeHead(200, { 'content-type': 'application/json', 'content-length': bytes.length }).end(bytes);
}

function now(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

server.listen(Number(process.argv[2]), '127.0.0.1', 4_096);
