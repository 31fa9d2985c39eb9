import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';

type Json = Readonly<Record<string, unknown>>;

const message = { id: 'msg_1', type: 'message' };
const call = { id: 'fc_1', type: 'function_call', call_id: 'call_1', name: 'weather' };
const reasoning = { id: 'rs_1', type: 'reasoning' };
const text = { type: 'output_text', text: 'Hi' };
const inMessage = { item_id: 'msg_1', output_index: 0, content_index: 0 };
const output = [{ ...message, content: [text] }, call, reasoning];

/** The least that a model server can answer: no property that the service can add. */
const wholes: Readonly<Record<string, Json>> = {
  '/v1/chat/completions': { choices: [{ message: { content: 'Hi' } }, { message: {} }] },
  '/v1/completions': { choices: [{ text: 'Hi' }, {}] },
  '/v1/embeddings': { data: [{ embedding: [0.5] }, { embedding: [0.5] }] },
  '/v1/responses': { output },
};

const streams: Readonly<Record<string, readonly Json[]>> = {
  '/v1/chat/completions': [{ choices: [{ delta: { content: 'Hi' } }] }, { choices: [{ finish_reason: 'stop' }] }],
  '/v1/completions': [{ choices: [{ text: 'Hi' }] }, { choices: [{ finish_reason: 'stop' }] }],
  '/v1/responses': [
    { type: 'response.created', response: { id: 'resp_1' } },
    { type: 'response.output_item.added', output_index: 0, item: message },
    { type: 'response.content_part.added', ...inMessage, part: { type: 'output_text', text: '' } },
    { type: 'response.output_text.delta', ...inMessage, delta: 'Hi' },
    { type: 'response.output_text.done', ...inMessage, text: 'Hi' },
    { type: 'response.content_part.done', ...inMessage, part: text },
    { type: 'response.output_item.done', output_index: 0, item: { ...message, content: [text] } },
    { type: 'response.output_item.added', output_index: 1, item: call },
    { type: 'response.function_call_arguments.delta', item_id: 'fc_1', output_index: 1, delta: '{}' },
    { type: 'response.function_call_arguments.done', item_id: 'fc_1', output_index: 1, arguments: '{}' },
    { type: 'response.output_item.done', output_index: 1, item: { ...call, arguments: '{}' } },
    { type: 'response.output_item.added', output_index: 2, item: reasoning },
    { type: 'response.output_item.done', output_index: 2, item: reasoning },
    { type: 'response.completed', response: { id: 'resp_1', output } },
  ],
};

/** Starts a model server that leaves out all that it can. */
export async function startBareBackend() {
  const server = createServer(async (req, res) => {
    const [path, body] = [req.url ?? '', await bodyOf(req)];
    const events = streams[path];
    if (body.stream !== true || events === undefined) {
      res.writeHead(wholes[path] === undefined ? 404 : 200, { 'content-type': 'application/json' });
      return res.end(JSON.stringify(wholes[path] ?? {}));
    }
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.end([...events.map((event) => JSON.stringify(event)), '[DONE]'].map((data) => `data: ${data}\n\n`).join(''));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // a TCP listener has one
  return {
    url: `http://127.0.0.1:${port}/v1`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function bodyOf(req: IncomingMessage): Promise<Json> {
  const text = (await Array.fromAsync(req)).join('');
  return text === '' ? {} : JSON.parse(text);
}
