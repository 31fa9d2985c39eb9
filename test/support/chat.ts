import { canary } from '../stack/search-keys.ts';
import { documentedFetch } from './documented/documented-fetch.ts';

/** A chat completion with one question, as a plain HTTP client sends it. */
export function chat({ url, key, signal, headers = {}, ...asked }: ChatOptions) {
  return documentedFetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}`, ...headers },
    body: JSON.stringify(chatBody(asked)),
    ...(signal !== undefined && { signal }),
  });
}

type Asked = {
  question: string;
  stream?: boolean;
  model?: string;
  /** Other fields of the body. */
  fields?: object;
};

export function chatBody({ question, stream = false, model = 'small-chat', fields = {} }: Asked) {
  return { model, stream, messages: [{ role: 'user', content: question }], user: canary, ...fields };
}

type ChatOptions = Asked & {
  url: string;
  key: string;
  signal?: AbortSignal;
  headers?: Record<string, string>;
};

/** The text of a complete response. A refusal is recognized by its status. */
export async function wholeText(response: Response): Promise<string> {
  const { choices } = (await response.json()) as { choices?: { message: { content: string } }[] }; // a response of the service itself
  return choices?.[0]?.message.content ?? `no answer, but ${response.status}`;
}

export type StreamEvent = {
  choices?: { delta?: { content?: string } }[];
  error?: { code: string; type?: string; message?: string; param?: null };
};

/** The events of a stream that was read to its end, `[DONE]` unparsed. */
export function streamEvents(body: string): (StreamEvent | '[DONE]')[] {
  return body
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => line.slice('data: '.length))
    .map((data) => (data === '[DONE]' ? data : (JSON.parse(data) as StreamEvent))); // written by the service itself
}

/** The text of a stream that ended with `[DONE]`. Throws for any other end. */
export function streamedText(body: string): string {
  const events = streamEvents(body);
  if (events.at(-1) !== '[DONE]') return `not complete: ${body.slice(-300)}`;
  return events.map((event) => (event === '[DONE]' ? '' : (event.choices?.[0]?.delta?.content ?? ''))).join('');
}
