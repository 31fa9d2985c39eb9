import { type Dispatcher, request } from 'undici';
import { z } from 'zod';
import { answerFor, pieces } from '../../stack/model-server.ts';
import { chatForm } from '../client-forms/choices-forms.ts';
import { type ClientForm, parseJson, type Tokens } from '../client-forms/client-form.ts';
import { formAt } from '../client-forms/every-form.ts';

const tokensMax = 1_000;
const errorSchema = z.union([
  z.object({ code: z.string() }),
  z.object({ error: z.object({ code: z.string() }) }).transform(({ error }) => error),
]);
export type Wish = {
  url: string;
  key: string;
  question: string;
  stream: boolean;
  includeUsage: boolean;
  model: string;
  /** Default: chat. */
  form?: ClientForm;
  /** When this is aborted the client closes its connection, unless its response is complete. */
  leaving?: AbortSignal | undefined;
};

/**
 * How a request ended for its client. `answered`: 200, and complete; `refused`: by a status; `interrupted`: a stream with an error frame;
 * `left`: by the client, at that time (milliseconds of Unix time); `broken`: its connection broke; `malformed`: an invalid response, such
 * as a stream that stops without an end. `text` is the text received so far; without a `requestId` no header had arrived.
 */
export type AskedRequest = { requestId: string | undefined; path: string; question: string; stream: boolean } & (
  | { ending: 'answered'; usage: Tokens | undefined; text: string }
  | { ending: 'refused'; status: number; code: string }
  | { ending: 'interrupted'; code: string; text: string }
  | { ending: 'left'; at: number; text: string }
  | { ending: 'broken'; text: string }
  | { ending: 'malformed'; status: number; text: string }
);

/** The question of a request that `ask` sent, from the call as a model server received it. */
export function questionOf({ path, body }: { path: string; body: unknown }): string | undefined {
  return formAt(path)?.questionOf(body);
}

/** The tokens of the answer that every model server gives at this endpoint. */
export function answerTo({ path, question }: { path: string; question: string }): string[] {
  if (formAt(path)?.hasText !== true) return [];
  return pieces(answerFor([{ role: 'user', content: question }])).slice(0, tokensMax);
}

/** Sends one request, without retries: a client whose connection breaks knows no more than that. */
export async function ask(wish: Wish, dispatcher: Dispatcher): Promise<AskedRequest> {
  const { question, leaving, form = chatForm } = wish;
  const stream = wish.stream && form.hasStreams;
  const common = { path: form.path, question, stream };
  let at: number | undefined;
  const leave = () => {
    at = Date.now();
  };
  leaving?.addEventListener('abort', leave, { once: true });
  let requestId: string | undefined;
  let text = '';
  try {
    const { statusCode: status, headers, body } = await send({ ...wish, stream }, form, dispatcher);
    requestId = typeof headers['x-request-id'] === 'string' ? headers['x-request-id'] : undefined;
    for await (const characters of body.setEncoding('utf8')) text += characters;
    const read = status !== 200 ? readRefusal(status, text) : readAnswer(form, stream, text);
    return { requestId, ...common, ...(read ?? { ending: 'malformed', status, text: text.slice(-500) }) };
  } catch {
    const arrived = { requestId, ...common, text: stream ? form.textIn(text) : '' };
    return at === undefined ? { ...arrived, ending: 'broken' } : { ...arrived, ending: 'left', at };
  } finally {
    leaving?.removeEventListener('abort', leave);
  }
}

function send(wish: Wish, form: ClientForm, dispatcher: Dispatcher) {
  const { url, key, leaving } = wish;
  return request(`${url}${form.path}`, {
    method: 'POST',
    dispatcher,
    ...(leaving !== undefined && { signal: leaving }),
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify(form.bodyOf({ ...wish, tokensMax })),
  });
}

type Ending<Asked> = Asked extends unknown ? Omit<Asked, 'requestId' | 'path' | 'question' | 'stream'> : never;
type Read = Ending<AskedRequest> | undefined;

function readRefusal(status: number, text: string): Read {
  const parsed = errorSchema.safeParse(parseJson(text));
  return parsed.success ? { ending: 'refused', status, code: parsed.data.code } : undefined;
}

function readAnswer(form: ClientForm, stream: boolean, text: string): Read {
  if (stream) return form.readStream(text);
  const whole = form.readWhole(parseJson(text));
  return whole && { ending: 'answered', ...whole };
}
