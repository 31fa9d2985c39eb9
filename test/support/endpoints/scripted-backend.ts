import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export type RequestFields = Readonly<Record<string, unknown>>;

/** What a model server answers. `events` are a stream, whatever was asked for; a text is data as it is. */
export type ScriptedAnswer = { status?: number; headers?: Record<string, string> } & (
  | { body: unknown }
  | { events: readonly unknown[] }
  | { write: (response: ServerResponse) => unknown }
);

type Script = (asked: RequestFields, text: string, path: string) => ScriptedAnswer;

/**
 * Model servers that answer as their scripts say, each below its own path. `asked` has the bodies of their calls. Lists of models, which
 * are health tests, are empty and never fail.
 */
export async function startScriptedBackend<Name extends string>(scripts: Readonly<Record<Name, Script>>) {
  const asked = Object.fromEntries(Object.keys(scripts).map((name) => [name, [] as RequestFields[]])) as Record<
    Name,
    RequestFields[]
  >;
  const server = createServer(async (request, response) => {
    const [, name = '', path = ''] = /^\/([^/]+)\/v1(.*)$/.exec(request.url ?? '') ?? [];
    const text = Buffer.concat(await request.toArray()).toString();
    if (request.method === 'GET') return response.end('{"object":"list","data":[]}');
    const body: RequestFields = JSON.parse(text);
    asked[name as Name].push(body);
    send(response, scripts[name as Name](body, text, path));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // a TCP listener has one
  return {
    asked,
    url: (name: Name) => `http://127.0.0.1:${port}/${name}/v1`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

function send(response: ServerResponse, answer: ScriptedAnswer): unknown {
  const { status = 200, headers } = answer;
  const type = 'body' in answer ? 'application/json' : 'text/event-stream';
  response.writeHead(status, headers ?? { 'content-type': type });
  if ('write' in answer) return answer.write(response);
  return response.end('body' in answer ? JSON.stringify(answer.body) : answer.events.map(dataOf).join(''));
}

/** The event of a stream. One with a type has it as its name, as those of messages and responses. */
export function dataOf(event: unknown): string {
  if (typeof event === 'string') return `data: ${event}\n\n`;
  const { type } = event as { type?: string };
  return `${type === undefined ? '' : `event: ${type}\n`}data: ${JSON.stringify(event)}\n\n`;
}

/** A chunk of a chat. */
export function chunk(delta: object, finish_reason: string | null = null, more: object = {}) {
  const choices = [{ index: 0, delta, finish_reason }];
  return { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices, ...more };
}

export const usageOf = (prompt_tokens: number, completion_tokens: number) => ({
  usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
});

/** An answer of each endpoint that says "Hi there", 7 and 2 tokens. */
export function saidBy(path: string): readonly unknown[] {
  if (path === '/messages') {
    return [
      {
        type: 'message_start',
        message: {
          id: 'msg_1',
          type: 'message',
          role: 'assistant',
          model: 'm',
          content: [],
          usage: { input_tokens: 7 },
        },
      },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hi there' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 2 } },
      { type: 'message_stop' },
    ];
  }
  if (path === '/responses') {
    const part = { type: 'output_text', text: 'Hi there', annotations: [] };
    const item = { id: 'm1', type: 'message', role: 'assistant', status: 'completed', content: [part] };
    const place = { item_id: 'm1', output_index: 0, content_index: 0 };
    const response = { id: 'resp_1', object: 'response', status: 'completed', output: [item] };
    return [
      { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
      { type: 'response.output_item.added', output_index: 0, item: { ...item, content: [] } },
      { type: 'response.content_part.added', ...place, part: { ...part, text: '' } },
      { type: 'response.output_text.delta', ...place, delta: 'Hi there' },
      { type: 'response.output_text.done', ...place, text: 'Hi there' },
      { type: 'response.content_part.done', ...place, part },
      { type: 'response.output_item.done', output_index: 0, item },
      { type: 'response.completed', response: { ...response, usage: { input_tokens: 7, output_tokens: 2 } } },
    ];
  }
  const ended = { ...chunk({}), choices: [], ...usageOf(7, 2) };
  return [chunk({ role: 'assistant', content: 'Hi' }), chunk({ content: ' there' }, 'stop'), ended, '[DONE]'];
}
