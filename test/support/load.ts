import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import { Agent, type Dispatcher, request } from 'undici';
import { z } from 'zod';
import { storedJson } from '../../shared/json/stored-values.ts';
import { answerFor } from '../stack/model-server.ts';
import type { Stack } from '../stack/stack.ts';
import { streamEvents, streamedText } from './chat.ts';
import { createKeyClient } from './key-client.ts';

/** How a request ended for its client. */
export type RequestEnd =
  | { id: string; kind: 'answered' | 'refused' | 'failed'; status: number; detail: string }
  | { id: string; kind: 'wrong' | 'broken off' | 'no answer'; detail: string };

type Asked = {
  url: string;
  key: string;
  id: string;
  model?: string | undefined;
  /** The connections. Default: one of its own, so that idle connections that a shutdown closes do not matter. */
  dispatcher?: Dispatcher | undefined;
};

/** Sends one request, streamed if its id ends with an s. */
export async function ask({ url, key, id, model = 'small-chat', dispatcher: given }: Asked): Promise<RequestEnd> {
  const stream = id.endsWith('s');
  const question = `What is ${id}? 東京`;
  const dispatcher = given ?? new Agent();
  try {
    const { statusCode: status, body } = await request(`${url}/v1/chat/completions`, {
      method: 'POST',
      dispatcher,
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}`, 'x-client-request-id': id },
      body: JSON.stringify({ model, stream, messages: [{ role: 'user', content: question }] }),
    });
    let text: string;
    try {
      text = await body.text();
    } catch (error) {
      return { id, kind: 'broken off', detail: String(error) };
    }
    if (status !== 200) return { id, kind: isError(text) ? 'refused' : 'wrong', status, detail: text };
    if (stream && streamEvents(text).some((event) => event !== '[DONE]' && event.error !== undefined)) {
      return { id, kind: text.includes('[DONE]') ? 'wrong' : 'failed', status, detail: text };
    }
    const said = stream ? streamedText(text) : JSON.parse(text).choices[0].message.content;
    const whole = said === answerFor([{ role: 'user', content: question }]);
    return { id, kind: whole ? 'answered' : 'wrong', status, detail: said };
  } catch (error) {
    return { id, kind: 'no answer', detail: String(error) };
  } finally {
    if (given === undefined) await dispatcher.close();
  }
}

const errorSchema = storedJson.pipe(z.object({ error: z.string(), code: z.string() }));

/** Whether it is an error of the service. A proxy in front of it has pages of its own. */
function isError(text: string): boolean {
  return errorSchema.safeParse(text).success;
}

type Load = {
  url: () => string;
  /** The clients use them in turn. */
  keys: readonly string[];
  name: string;
  clients?: number;
  model?: string;
  dispatcher?: Dispatcher;
  /** The first of every `streamedEvery` requests of a client is streamed. */
  streamedEvery?: number;
  /** Every second client keeps its connection for its next request. */
  keepsConnections?: boolean;
};

/** The pause of a client that got no answer before it asks again. */
const refusedPauseMs = 250;

/** Clients that send one question after another until they are stopped, or the test ends. Each `id` is used once. */
export function startLoad(t: Pick<ExecutionContext, 'teardown'>, load: Load) {
  const { url, keys, name, clients = 12, model, dispatcher, streamedEvery = 3, keepsConnections } = load;
  const endings: RequestEnd[] = [];
  let stopped = false;
  const running = Array.from({ length: clients }, async (_, client) => {
    const key = keys[client % keys.length] ?? '';
    const own = keepsConnections && client % 2 === 1 ? new Agent() : undefined;
    for (let index = 0; !stopped; index++) {
      const id = `${name}-${client}-${index}-${index % streamedEvery === 0 ? 's' : 'w'}`;
      const ending = await ask({ url: url(), key, id, model, dispatcher: own ?? dispatcher });
      endings.push(ending);
      if (ending.kind === 'refused' || ending.kind === 'no answer') await sleep(refusedPauseMs);
    }
    await own?.close();
  });
  async function stop(): Promise<RequestEnd[]> {
    stopped = true;
    await Promise.all(running);
    return endings;
  }
  t.teardown(stop);
  return { endings, stop };
}

export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(20);
}

/** A key of the plan without limits: the default plan would refuse most of a load. */
export async function unlimitedKey(stack: Stack, account = 'alice'): Promise<string> {
  const keys = createKeyClient(stack);
  const key = await keys.newKey(account);
  await keys.change(`user:${account}`, { plan: 'pro' });
  return key;
}
