import type { ExecutionContext } from 'ava';
import type { ModelServer } from '../stack/model-server.ts';
import { parseJson } from './client-forms/client-form.ts';
import { formAt } from './client-forms/every-form.ts';
import { documentedFetch } from './documented/documented-fetch.ts';

/** Endpoints whose prompts have keys. */
export const prefixForms = ['chat', 'messages', 'responses', 'completions'] as const;
export type PrefixForm = (typeof prefixForms)[number];

/** One turn of a chat. Its beginning is its own and long enough for a key, unless it `isShort`. */
export type ChatTurn = {
  model: string;
  chat: string;
  turn: number;
  form?: PrefixForm;
  isShort?: boolean;
  /** Of this turn. */
  question?: string;
  stream?: boolean;
  /** A system message, of a chat completion. */
  system?: string;
  /** Other fields of the body. */
  fields?: object;
};

type Service = { url: string; key: string; signal?: AbortSignal };

/** Longer than the shortest prompt that has a key (1,024 characters), and, with the texts of turns, shorter than its double. */
const beginningCharacters = 1_200;
const answerTokensMax = 8;

/** So many different keys all have the same one of two backends in one of 30 million runs. */
export const manyChats: readonly string[] = Array.from({ length: 26 }, (_, index) => `chat-${index}`);

/** With so many clients at once no backend is too busy for its keys, also if each of two workers counts all calls as those of the other. */
const clients = 3;

/** A text of a prompt that has a key. */
export function longText(text: string): string {
  return text.padEnd(beginningCharacters, 'and so on, ');
}

/** Sends a turn, and requires a complete answer. */
export async function askTurn(t: ExecutionContext, service: Service, turn: ChatTurn): Promise<void> {
  const response = await sendTurn(service, turn);
  const text = await response.text();
  const { path } = requestOf(turn);
  const form = formAt(path);
  const isWhole = turn.stream ? form?.readStream(text)?.ending === 'answered' : form?.readWhole(parseJson(text));
  if (response.status !== 200 || !isWhole) t.fail(`${turn.chat}, turn ${turn.turn}: ${response.status} ${text}`);
}

export function sendTurn({ url, key, signal }: Service, turn: ChatTurn): Promise<Response> {
  const { path, body } = requestOf(turn);
  return documentedFetch(`${url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify(body),
    ...(signal !== undefined && { signal }),
  });
}

/** The request of a turn. */
export function requestOf(turn: ChatTurn): { path: string; body: object } {
  const { model, form = 'chat', stream = false, fields = {} } = turn;
  const { path, body } = requests[form](turn);
  return { path, body: { model, stream, ...body, ...fields } };
}

/** Works on all of them, a few at once. */
export async function withFewClients<Item>(items: readonly Item[], work: (item: Item) => Promise<unknown>) {
  const left = items.values();
  async function client(): Promise<void> {
    for (const item of left) await work(item);
  }
  await Promise.all(Array.from({ length: clients }, client));
}

/** The names of the servers that were called for each chat of a model, in the order of the calls. */
export function placesOf(servers: readonly ModelServer[], model: string): Map<string, string[]> {
  const calls = servers.flatMap((server) => server.calls().map((call) => ({ ...call, server: server.name })));
  const places = new Map<string, string[]>();
  for (const { body, server } of calls
    .filter((call) => call.model === model)
    .sort((one, other) => one.startedAt - other.startedAt)) {
    const [, chat = 'none'] = /\[([\w-]+)\] /.exec(JSON.stringify(body)) ?? [];
    places.set(chat, [...(places.get(chat) ?? []), server]);
  }
  return places;
}

/** The server that each chat of a model was at last. */
export function latestPlaces(servers: readonly ModelServer[], model: string): Map<string, string | undefined> {
  return new Map([...placesOf(servers, model)].map(([chat, names]) => [chat, names.at(-1)]));
}

/** The one server that each chat of a model was at. Fails the test if one was at several, or if not all of the servers were called. */
export function onePlaceOfEach(t: ExecutionContext, servers: readonly ModelServer[], model: string) {
  const places = placesOf(servers, model);
  for (const [chat, names] of places) t.is(new Set(names).size, 1, `${model}, ${chat}: ${names}`);
  const called = new Set([...places.values()].flat());
  t.deepEqual([...called].sort(), servers.map(({ name }) => name).sort());
  return places;
}

const requests: Record<PrefixForm, (turn: ChatTurn) => { path: string; body: object }> = {
  chat(turn) {
    const { system } = turn;
    const [first, ...others] = messagesOf(turn);
    const instructions = system === undefined ? [] : [{ role: 'system', content: system }];
    const messages = [...instructions, { ...first, content: `${beginningOf(turn)}${first?.content}` }, ...others];
    return { path: '/v1/chat/completions', body: { messages, ...limited } };
  },
  messages: (turn) => ({
    path: '/v1/messages',
    body: { system: beginningOf(turn), messages: messagesOf(turn), ...limited },
  }),
  responses: (turn) => ({
    path: '/v1/responses',
    body: { instructions: beginningOf(turn), input: messagesOf(turn), max_output_tokens: answerTokensMax },
  }),
  completions: (turn) => ({
    path: '/v1/completions',
    body: {
      prompt: `${beginningOf(turn)}${messagesOf(turn)
        .map(({ content }) => content)
        .join('\n')}`,
      ...limited,
    },
  }),
};

const limited = { max_tokens: answerTokensMax };

function beginningOf({ chat, isShort }: ChatTurn): string {
  return isShort ? `[${chat}] ` : longText(`[${chat}] `);
}

/** The questions and answers so far, and the question of this turn. */
function messagesOf({ turn, question = `Question ${turn}?` }: ChatTurn) {
  const earlier = Array.from({ length: turn - 1 }, (_, index) => [
    { role: 'user', content: `Question ${index + 1}?` },
    { role: 'assistant', content: `Answer ${index + 1}.` },
  ]);
  return [...earlier.flat(), { role: 'user', content: question }];
}
