import { setTimeout as sleep } from 'node:timers/promises';
import { createParser } from 'eventsource-parser';
import { Agent, request } from 'undici';
import { z } from 'zod';
import { chatPath, modelName } from '../gateways/gateway.ts';
import type { ChatMessage, PlannedChat, Traffic } from './traffic.ts';

/** One request as its client saw it. Times are Unix milliseconds. */
export interface SentRequest {
  /** Its number among all requests of the traffic, by which the model servers know it. */
  readonly index: number;
  /** The number of the chat. Undefined for a one-off request. */
  readonly chat: number | undefined;
  readonly messages: readonly ChatMessage[];
  readonly sentAt: number;
  readonly firstTokenMs: number | undefined;
  readonly answer: string;
  /** Undefined if the answer was complete. */
  readonly failure: string | undefined;
}

export interface Target {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

const streamEvent = z.object({
  choices: z.array(z.object({ delta: z.object({ content: z.string().nullish() }).optional() })).optional(),
  error: z.unknown().optional(),
});

/** Longer than any answer takes, even behind a full queue. */
const answerMsMax = 60_000;

/** Sends the traffic: a turn of a chat has the real answers of the turns before. A chat ends with a failed turn. */
export async function runTraffic(target: Target, traffic: Traffic): Promise<SentRequest[]> {
  await using parts = new AsyncDisposableStack();
  const agent = parts.adopt(new Agent({ connections: 1_024 }), (opened) => opened.close());
  const sent: SentRequest[] = [];
  const send = async (planned: Planned) => {
    const done = await sendOne({ target, agent }, planned);
    sent.push(done);
    return done;
  };
  const turnsEach = Math.max(...traffic.chats.map(({ turns }) => turns.length));
  await Promise.all([
    ...traffic.chats.map((chat, number) => runChat(chat, { number, firstIndex: number * turnsEach, send })),
    ...traffic.oneOffs.map(async ({ atMs, messages, answerTokensMax }, number) => {
      await sleep(atMs);
      await send({
        index: traffic.chats.length * turnsEach + number,
        chat: undefined,
        messages,
        answerTokensMax,
      });
    }),
  ]);
  return sent.toSorted((one, other) => one.sentAt - other.sentAt);
}

type Planned = Pick<SentRequest, 'index' | 'chat' | 'messages'> & { answerTokensMax: number };
type Place = { number: number; firstIndex: number; send: (planned: Planned) => Promise<SentRequest> };

async function runChat({ opening, turns }: PlannedChat, { number, firstIndex, send }: Place): Promise<void> {
  let messages = opening;
  for (const [turn, { said, answerTokensMax, waitMs }] of turns.entries()) {
    await sleep(waitMs);
    messages = [...messages, { role: 'user', content: said }];
    const { answer, failure } = await send({ index: firstIndex + turn, chat: number, messages, answerTokensMax });
    if (failure !== undefined) return;
    messages = [...messages, { role: 'assistant', content: answer }];
  }
}

async function sendOne({ target, agent }: { target: Target; agent: Agent }, planned: Planned): Promise<SentRequest> {
  const { answerTokensMax, ...request } = planned;
  const body = { model: modelName, messages: planned.messages, max_tokens: answerTokensMax, stream: true };
  const sentAt = Date.now();
  const startedAt = performance.now();
  let [answer, firstTokenMs] = ['', undefined as number | undefined];
  const ended = (failure?: string) => ({ ...request, sentAt, firstTokenMs, answer, failure });
  try {
    const failure = await readStream({ target, agent, body: { ...body, seed: planned.index } }, (content) => {
      firstTokenMs ??= performance.now() - startedAt;
      answer += content;
    });
    return ended(failure);
  } catch (error) {
    return ended(String(error));
  }
}

/** Returns why the stream was not complete. */
async function readStream(
  { target, agent, body }: { target: Target; agent: Agent; body: object },
  onContent: (content: string) => void,
): Promise<string | undefined> {
  const response = await request(`${target.url}${chatPath}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...target.headers },
    body: JSON.stringify(body),
    dispatcher: agent,
    signal: AbortSignal.timeout(answerMsMax),
  });
  if (response.statusCode !== 200) return `${response.statusCode}: ${(await response.body.text()).slice(0, 200)}`;
  let failure: string | undefined = 'the stream did not end';
  const parser = createParser({
    onEvent({ data }) {
      if (data === '[DONE]') failure = undefined;
      else {
        const { choices, error } = streamEvent.parse(JSON.parse(data));
        if (error !== undefined) failure = JSON.stringify(error);
        for (const { delta } of choices ?? []) if (delta?.content) onContent(delta.content);
      }
    },
  });
  for await (const bytes of response.body.setEncoding('utf8')) parser.feed(String(bytes));
  return failure;
}
