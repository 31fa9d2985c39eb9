import { type Dispatcher, request } from 'undici';
import { z } from 'zod';

const usageSchema = z.object({ prompt_tokens: z.int(), completion_tokens: z.int() });
const answerSchema = z.object({ choices: z.array(z.unknown()).min(1), usage: usageSchema });
const errorSchema = z.union([
  z.object({ code: z.string() }),
  z.object({ error: z.object({ code: z.string() }) }).transform(({ error }) => error),
]);
const eventSchema = z.looseObject({
  choices: z.array(z.looseObject({ delta: z.looseObject({ content: z.string().nullish() }).optional() })).optional(),
  usage: usageSchema.nullish(),
  error: z.object({ code: z.string() }).optional(),
});

export type Wish = {
  url: string;
  key: string;
  question: string;
  stream: boolean;
  includeUsage: boolean;
  model: string;
};

/**
 * How a request ended for its client. `answered`: 200, and whole; `refused`: by a status; `interrupted`: a stream by an error
 * frame; `broken`: its connection broke, before any header where there is no `requestId`; `malformed`: like no answer that
 * may ever be given, such as a stream that merely stops.
 */
export type Asked = { requestId: string | undefined; stream: boolean } & (
  | { ending: 'answered'; usage: Tokens | undefined }
  | { ending: 'refused'; status: number; code: string }
  | { ending: 'interrupted'; code: string; gotText: boolean }
  | { ending: 'broken' }
  | { ending: 'malformed'; status: number; text: string }
);

export type Tokens = { promptTokens: number; completionTokens: number };

/** One request, which is never repeated: a client whose connection breaks knows no more than that. */
export async function ask(wish: Wish, dispatcher: Dispatcher): Promise<Asked> {
  const { stream } = wish;
  let requestId: string | undefined;
  try {
    const { statusCode: status, headers, body } = await send(wish, dispatcher);
    requestId = typeof headers['x-request-id'] === 'string' ? headers['x-request-id'] : undefined;
    const text = await body.text();
    const read = status !== 200 ? readRefusal(status, text) : stream ? readStream(text) : readWhole(text);
    return { requestId, stream, ...(read ?? { ending: 'malformed', status, text: text.slice(-500) }) };
  } catch {
    return { requestId, stream, ending: 'broken' };
  }
}

function send({ url, key, question, stream, includeUsage, model }: Wish, dispatcher: Dispatcher) {
  const options = includeUsage ? { stream_options: { include_usage: true } } : {};
  return request(`${url}/v1/chat/completions`, {
    method: 'POST',
    dispatcher,
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({
      model,
      stream,
      ...options,
      max_tokens: 500,
      messages: [{ role: 'user', content: question }],
    }),
  });
}

type Ending<Asked> = Asked extends unknown ? Omit<Asked, 'requestId' | 'stream'> : never;
type Read = Ending<Asked> | undefined;

function readRefusal(status: number, text: string): Read {
  const parsed = errorSchema.safeParse(parseJson(text));
  return parsed.success ? { ending: 'refused', status, code: parsed.data.code } : undefined;
}

function readWhole(text: string): Read {
  const parsed = answerSchema.safeParse(parseJson(text));
  return parsed.success ? { ending: 'answered', usage: tokensOf(parsed.data.usage) } : undefined;
}

function readStream(text: string): Read {
  const blocks = text.split('\n\n').filter((block) => block.startsWith('data: '));
  const done = blocks.at(-1) === 'data: [DONE]';
  const parsed = z
    .array(eventSchema)
    .safeParse(blocks.slice(0, done ? -1 : undefined).map((block) => parseJson(block.slice('data: '.length))));
  if (!parsed.success) return undefined;
  const error = parsed.data.at(-1)?.error;
  const gotText = parsed.data.some(({ choices }) => choices?.some(({ delta }) => delta?.content));
  if (error !== undefined && !done) return { ending: 'interrupted', code: error.code, gotText };
  if (!done || parsed.data.some((event) => event.error !== undefined)) return undefined;
  const usage = parsed.data.find((event) => event.usage)?.usage;
  return { ending: 'answered', usage: usage ? tokensOf(usage) : undefined };
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
