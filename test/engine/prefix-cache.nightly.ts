import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { z } from 'zod';
import { createKeyClient } from '../support/key-client.ts';
import { openEngineTests } from './open-engine-tests.ts';

/** So many all go to the same engine in one of 8 million runs. */
const chats = Array.from({ length: 24 }, (_, index) => `Chat ${index}`);
const turnCount = 4;
const clients = 3;
const answerTokens = 24;
/** Of the text between turns, which is tokenized again. */
const fewTokens = 16;
/** An engine keeps the prefix of one chat in each slot, also if all chats come to it. */
const slots = { slots: chats.length, contextTokens: 2_048 } as const;
const replicas = { model: 'chat', count: 2, ...slots, endpoints: ['chat'] } as const;
const { engineTestAlone, account, stack } = openEngineTests(test, {
  kept: replicas,
  scattered: { ...replicas, affinity: 'none' },
});

const answerSchema = z.object({
  choices: z.tuple([z.object({ message: z.object({ content: z.string() }) })]),
  usage: z.object({
    prompt_tokens: z.int(),
    prompt_tokens_details: z.object({ cached_tokens: z.int() }),
  }),
});

/** A turn as the service has answered it, and the backend that it has called. */
type Turn = { promptTokens: number; cachedTokens: number; backend: string };

/** Chats that take turns with each other, each with the answers that it got. Returns the turns of each chat. */
async function chatsOver(t: ExecutionContext, model: 'kept' | 'scattered'): Promise<Turn[][]> {
  const { post } = await account();
  const histories = chats.map((chat) => ({
    messages: [{ role: 'system', content: longText(`${chat} about ${model} `) }] as object[],
    turns: [] as Turn[],
  }));

  async function take({ messages, turns }: (typeof histories)[number]): Promise<void> {
    messages.push({ role: 'user', content: `Question ${turns.length}: what is in the house by the river?` });
    const response = await post('/v1/chat/completions', { model, messages, max_tokens: answerTokens });
    const text = await response.text();
    t.is(response.status, 200, text);
    const { choices, usage } = answerSchema.parse(JSON.parse(text));
    messages.push({ role: 'assistant', content: choices[0].message.content || 'Nothing.' });
    turns.push({
      promptTokens: usage.prompt_tokens,
      cachedTokens: usage.prompt_tokens_details.cached_tokens,
      backend: await backendOf(response.headers.get('x-request-id') ?? ''),
    });
  }

  for (let turn = 0; turn < turnCount; turn++) {
    const order = histories.toSorted(() => Math.random() - 0.5).values();
    const client = async () => {
      for (const history of order) await take(history);
    };
    await Promise.all(Array.from({ length: clients }, client));
  }
  return histories.map(({ turns }) => turns);
}

const endedSchema = z.object({ attempts: z.tuple([z.object({ backend: z.string() })]) });

/** The backend of an answered request, as operators see it. */
async function backendOf(requestId: string): Promise<string> {
  const keys = createKeyClient(stack());
  const bearer = await keys.token('operator', true);
  for (;;) {
    const { body } = await keys.send('GET', `/admin/requests/${requestId}`, { bearer });
    const { data } = endedSchema.safeParse(body);
    if (data !== undefined) return data.attempts[0].backend;
    await sleep(20);
  }
}

function longText(opening: string): string {
  return opening.padEnd(1_600, 'the people of the city know that water is in the stone house by the river and ');
}

/** The cached part of the prompts of all turns but the first ones. */
function cachedShare(all: readonly Turn[][]): number {
  const later = all.flatMap((turns) => turns.slice(1));
  const sum = (of: (turn: Turn) => number) => later.reduce((total, turn) => total + of(turn), 0);
  return sum(({ cachedTokens }) => cachedTokens) / sum(({ promptTokens }) => promptTokens);
}

const isAtOne = (turns: readonly Turn[]) => new Set(turns.map(({ backend }) => backend)).size === 1;

engineTestAlone(
  'from its second turn on an engine has the earlier turns of a chat, which without affinity it has less of',
  async (t) => {
    const kept = await chatsOver(t, 'kept');
    for (const [index, turns] of kept.entries()) {
      t.true(isAtOne(turns), `${chats[index]}: ${JSON.stringify(turns)}`);
      for (const [turn, { promptTokens, cachedTokens }] of turns.entries()) {
        const earlier = turns[turn - 1];
        if (earlier === undefined) continue;
        t.true(
          cachedTokens > promptTokens / 2 && cachedTokens >= earlier.promptTokens - fewTokens,
          JSON.stringify(turns),
        );
      }
    }
    t.is(new Set(kept.flat().map(({ backend }) => backend)).size, 2);

    const scattered = await chatsOver(t, 'scattered');
    const shares = { kept: cachedShare(kept), scattered: cachedShare(scattered) };
    t.log(
      JSON.stringify(shares),
      `${scattered.filter((turns) => !isAtOne(turns)).length} of ${chats.length} chats moved`,
    );
    t.false(scattered.every(isAtOne));
    t.true(shares.kept > shares.scattered, JSON.stringify(shares));
  },
);
