import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';

/** Answers every request with this stream. */
const answering = (text: string) => async () =>
  new Response(text, {
    headers: { 'content-type': 'text/event-stream', 'request-id': 'req_1', 'x-request-id': 'req_1' },
  });

const settings = { apiKey: 'none', baseURL: 'http://sdk.invalid', maxRetries: 0 };

/** What the official SDK makes of a streamed response. Throws as it throws. */
export async function sdkResponse(text: string) {
  const client = new OpenAI({ ...settings, fetch: answering(text) });
  const stream = client.responses.stream({ model: 'm', input: 'x' });
  const events = await Array.fromAsync(stream);
  return { events, response: await stream.finalResponse() };
}

/** What the official SDK makes of a streamed message. `blocks`: what it reports as each block ends. Throws as it throws. */
export async function sdkMessage(text: string) {
  const client = new Anthropic({ ...settings, fetch: answering(text) });
  const stream = client.messages.stream({ model: 'm', max_tokens: 1, messages: [{ role: 'user', content: 'x' }] });
  const blocks: unknown[] = [];
  stream.on('contentBlock', (block) => blocks.push(block));
  const events = await Array.fromAsync(stream);
  return { events, blocks, message: await stream.finalMessage() };
}

/** What the official SDK makes of a streamed text completion. Throws as it throws. */
export async function sdkCompletion(text: string) {
  const client = new OpenAI({ ...settings, fetch: answering(text) });
  return Array.fromAsync(await client.completions.create({ model: 'm', prompt: 'x', stream: true }));
}

export type NamedEvent = { name: string; data: Record<string, unknown> };

/** The events of a text of named events, in their order. Throws if one has another form. */
export function namedEvents(text: string): NamedEvent[] {
  if (text === '') return [];
  if (!text.endsWith('\n\n')) throw new Error(`half an event: ${text}`);
  return text
    .slice(0, -2)
    .split('\n\n')
    .map((event) => {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(event) ?? [];
      if (name === undefined || data === undefined) throw new Error(`no named event: ${event}`);
      return { name, data: JSON.parse(data) };
    });
}
