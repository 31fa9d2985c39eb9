import { type Dispatcher, request } from 'undici';
import { z } from 'zod';
import { answerFor, pieces } from '../../stack/model-server.ts';

const tokensMax = 1_000;
const usageSchema = z.object({ prompt_tokens: z.int(), completion_tokens: z.int() });
const answerSchema = z.object({
  choices: z.tuple([z.object({ message: z.object({ content: z.string() }) })]),
  usage: usageSchema,
});
const errorSchema = z.union([
  z.object({ code: z.string() }),
  z.object({ error: z.object({ code: z.string() }) }).transform(({ error }) => error),
]);
const bodySchema = z.object({ messages: z.tuple([z.object({ content: z.string() })]) });
const eventSchema = z.looseObject({
  choices: z.array(z.looseObject({ delta: z.looseObject({ content: z.string().nullish() }).optional() })).optional(),
  usage: usageSchema.nullish(),
  error: z.object({ code: z.string() }).optional(),
});

type StreamEvent = z.infer<typeof eventSchema>;

export type Wish = {
  url: string;
  key: string;
  question: string;
  stream: boolean;
  includeUsage: boolean;
  model: string;
  /** When this is aborted the client closes its connection, unless its response is complete. */
  leaving?: AbortSignal | undefined;
};

/**
 * How a request ended for its client. `answered`: 200, and complete; `refused`: by a status; `interrupted`: a stream with an error frame;
 * `left`: by the client, at that time (milliseconds of Unix time); `broken`: its connection broke; `malformed`: an invalid response, such
 * as a stream that stops without an end. `text` is the text received so far; without a `requestId` no header had arrived.
 */
export type Asked = { requestId: string | undefined; question: string; stream: boolean } & (
  | { ending: 'answered'; usage: Tokens | undefined; text: string }
  | { ending: 'refused'; status: number; code: string }
  | { ending: 'interrupted'; code: string; text: string }
  | { ending: 'left'; at: number; text: string }
  | { ending: 'broken'; text: string }
  | { ending: 'malformed'; status: number; text: string }
);

export type Tokens = { promptTokens: number; completionTokens: number };

/** The question of a request that `ask` sent, from its body as a model server received it. */
export function questionOf(body: unknown): string | undefined {
  return bodySchema.safeParse(body).data?.messages[0].content;
}

/** The tokens of the answer that every model server gives. */
export function answerTo(question: string): string[] {
  return pieces(answerFor([{ role: 'user', content: question }])).slice(0, tokensMax);
}

/** Sends one request, without retries: a client whose connection breaks knows no more than that. */
export async function ask(wish: Wish, dispatcher: Dispatcher): Promise<Asked> {
  const { question, stream, leaving } = wish;
  let at: number | undefined;
  const leave = () => {
    at = Date.now();
  };
  leaving?.addEventListener('abort', leave, { once: true });
  let requestId: string | undefined;
  let text = '';
  try {
    const { statusCode: status, headers, body } = await send(wish, dispatcher);
    requestId = typeof headers['x-request-id'] === 'string' ? headers['x-request-id'] : undefined;
    for await (const characters of body.setEncoding('utf8')) text += characters;
    const read = status !== 200 ? readRefusal(status, text) : stream ? readStream(text) : readWhole(text);
    return { requestId, question, stream, ...(read ?? { ending: 'malformed', status, text: text.slice(-500) }) };
  } catch {
    const arrived = stream ? textOf(readEvents(text.slice(0, text.lastIndexOf('\n\n') + 2)) ?? []) : '';
    const common = { requestId, question, stream, text: arrived };
    return at === undefined ? { ...common, ending: 'broken' } : { ...common, ending: 'left', at };
  } finally {
    leaving?.removeEventListener('abort', leave);
  }
}

function send(wish: Wish, dispatcher: Dispatcher) {
  const { url, key, question, stream, includeUsage, model, leaving } = wish;
  const options = includeUsage ? { stream_options: { include_usage: true } } : {};
  return request(`${url}/v1/chat/completions`, {
    method: 'POST',
    dispatcher,
    ...(leaving !== undefined && { signal: leaving }),
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({
      model,
      stream,
      ...options,
      max_tokens: tokensMax,
      messages: [{ role: 'user', content: question }],
    }),
  });
}

type Ending<Asked> = Asked extends unknown ? Omit<Asked, 'requestId' | 'question' | 'stream'> : never;
type Read = Ending<Asked> | undefined;

function readRefusal(status: number, text: string): Read {
  const parsed = errorSchema.safeParse(parseJson(text));
  return parsed.success ? { ending: 'refused', status, code: parsed.data.code } : undefined;
}

function readWhole(text: string): Read {
  const parsed = answerSchema.safeParse(parseJson(text));
  if (!parsed.success) return undefined;
  const { choices, usage } = parsed.data;
  return { ending: 'answered', usage: tokensOf(usage), text: choices[0].message.content };
}

function readStream(stream: string): Read {
  const end = 'data: [DONE]\n\n';
  const done = stream.endsWith(end);
  const events = readEvents(done ? stream.slice(0, -end.length) : stream);
  if (events === undefined) return undefined;
  const error = events.at(-1)?.error;
  const text = textOf(events);
  if (error !== undefined && !done) return { ending: 'interrupted', code: error.code, text };
  if (!done || events.some((event) => event.error !== undefined)) return undefined;
  const usage = events.find((event) => event.usage)?.usage;
  return { ending: 'answered', usage: usage ? tokensOf(usage) : undefined, text };
}

function readEvents(stream: string): StreamEvent[] | undefined {
  const blocks = stream.split('\n\n').filter((block) => block.startsWith('data: '));
  return z.array(eventSchema).safeParse(blocks.map((block) => parseJson(block.slice('data: '.length)))).data;
}

function textOf(events: readonly StreamEvent[]): string {
  return events.map(({ choices }) => choices?.[0]?.delta?.content ?? '').join('');
}

function tokensOf(usage: z.infer<typeof usageSchema>): Tokens {
  return { promptTokens: usage.prompt_tokens, completionTokens: usage.completion_tokens };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
