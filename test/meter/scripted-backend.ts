import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

interface ScriptedBackend extends AsyncDisposable {
  url: string;
  /**
   * Reads a stream of this backend to its end. Each chunk is sent only when the one before it has arrived here, so none are sent together.
   */
  readInStep(response: Response | Promise<Response>): Promise<void>;
}

/** A model server that answers one stream at a time, with this many chunks. */
export async function startScriptedBackend(chunks: number): Promise<ScriptedBackend> {
  let answer = Promise.withResolvers<ServerResponse>();
  const server = createServer((request, response) => {
    request.resume();
    if (request.method !== 'POST') return void response.writeHead(404).end();
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(chunk(0));
    answer.resolve(response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // a TCP listener has one

  return {
    url: `http://127.0.0.1:${port}/v1`,
    async readInStep(asked) {
      const { body, status } = await asked;
      if (status !== 200 || body === null) throw new Error(`the stream was answered ${status}`);
      let [text, arrived] = ['', 0];
      for await (const piece of body.pipeThrough(new TextDecoderStream())) {
        text += piece;
        const seen = text.split('word-').length - 1;
        if (seen === arrived) continue;
        arrived = seen;
        const response = await answer.promise;
        if (seen < chunks) response.write(chunk(seen));
        else response.end(end(chunks));
      }
      answer = Promise.withResolvers();
      if (arrived !== chunks || !text.trimEnd().endsWith('data: [DONE]')) throw new Error(`${arrived} chunks arrived`);
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

const fields = { id: 'chatcmpl-scripted', object: 'chat.completion.chunk', created: 1, model: 'scripted' };
const event = (data: object) => `data: ${JSON.stringify({ ...fields, ...data })}\n\n`;

function chunk(number: number): string {
  return event({ choices: [{ index: 0, delta: { content: `word-${number} ` }, finish_reason: null }] });
}

function end(chunks: number): string {
  const last = event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
  const usage = { prompt_tokens: 8, completion_tokens: chunks, total_tokens: 8 + chunks };
  return `${last}${event({ choices: [], usage })}data: [DONE]\n\n`;
}
