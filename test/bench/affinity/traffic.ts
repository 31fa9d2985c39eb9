import type { Random } from '../../support/random.ts';
import { seededRandom } from '../../support/random.ts';

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

/** What a user says, after a pause, and the most tokens of the answer. */
export interface Turn {
  readonly said: string;
  readonly answerTokensMax: number;
  /** From the answer before, or for the first turn from the start of the run. */
  readonly waitMs: number;
}

export interface PlannedChat {
  /** The messages before what the user says first. */
  readonly opening: readonly ChatMessage[];
  readonly turns: readonly Turn[];
}

export interface OneOff {
  readonly messages: readonly ChatMessage[];
  readonly answerTokensMax: number;
  readonly atMs: number;
}

/** Everything that is sent in one run: the same for each variant with the same seed. */
export interface Traffic {
  readonly chats: readonly PlannedChat[];
  readonly oneOffs: readonly OneOff[];
  /** How many tokens the finished chats have, answers included. A shared beginning counts once. */
  readonly tokens: number;
}

export interface TrafficSizes {
  readonly chats: number;
  readonly turns: number;
  /** One-off requests, as a share of the turns. */
  readonly oneOffShare: number;
  /** Tokens of a system prompt that all requests share. */
  readonly sharedTokens: number;
  /** The length of a run, if answers took no time. */
  readonly spanMs: number;
}

/** Chats begin in this share of the run; all of them are open until the first ones end. */
const startShare = 0.2;
const openingTokens = [300, 700] as const;
const saidTokens = [50, 150] as const;
const answerTokens = [60, 120] as const;

/** One token each, also for tokenizers of real models: up to four letters, with the space before them. */
const words = (
  'with have this will your from they know want been good much some time very when come here just like long make many ' +
  'more only over such take than them well were what year work back call each even find give hand high keep last left ' +
  'life live look most move must name need next open part play read same seem show side tell turn used ways week went'
).split(' ');

export function makeTraffic(seed: number, sizes: TrafficSizes): Traffic {
  const random = seededRandom(seed);
  const shared = sizes.sharedTokens === 0 ? undefined : textOf(random, sizes.sharedTokens);
  const chats = Array.from({ length: sizes.chats }, () => makeChat(random, sizes, shared));
  const oneOffs = Array.from({ length: Math.round(sizes.chats * sizes.turns * sizes.oneOffShare) }, () =>
    makeOneOff(random, sizes, shared),
  );
  const own = chats.reduce((sum, chat) => sum + tokensOf(chat), 0);
  return { chats, oneOffs, tokens: own + sizes.sharedTokens };
}

function makeChat(random: Random, { turns, spanMs }: TrafficSizes, shared: string | undefined): PlannedChat {
  const startMs = random.between(0, startShare * spanMs);
  const pauseMs = ((1 - startShare) * spanMs) / Math.max(1, turns - 1);
  return {
    opening: openingOf(random, shared),
    turns: Array.from({ length: turns }, (_, turn) => ({
      said: textOf(random, between(random, saidTokens)),
      answerTokensMax: between(random, answerTokens),
      waitMs: turn === 0 ? startMs : pauseMs * random.between(0.5, 1.5),
    })),
  };
}

/** As long as the prompt of a chat in the middle of its turns. */
function makeOneOff(random: Random, { turns, spanMs }: TrafficSizes, shared: string | undefined): OneOff {
  const middle = Math.ceil(turns / 2);
  const history = Array.from({ length: middle - 1 }, () => between(random, saidTokens) + between(random, answerTokens));
  const saidTokensAll = history.reduce((sum, each) => sum + each, between(random, saidTokens));
  return {
    messages: [...openingOf(random, shared), { role: 'user', content: textOf(random, saidTokensAll) }],
    answerTokensMax: between(random, answerTokens),
    atMs: random.between(0, spanMs),
  };
}

/** A system prompt of its own, or the one that all share and a first message of its own. */
function openingOf(random: Random, shared: string | undefined): ChatMessage[] {
  const own = textOf(random, between(random, openingTokens));
  if (shared === undefined) return [{ role: 'system', content: own }];
  return [
    { role: 'system', content: shared },
    { role: 'user', content: own },
  ];
}

function textOf(random: Random, tokens: number): string {
  return Array.from({ length: tokens }, () => random.oneOf(words)).join(' ');
}

function between(random: Random, [from, to]: readonly [number, number]): number {
  return Math.round(random.between(from, to));
}

/** Without the beginning that all chats share. */
function tokensOf({ opening, turns }: PlannedChat): number {
  const own = opening.at(-1)?.content.split(' ').length ?? 0;
  return turns.reduce((sum, { said, answerTokensMax }) => sum + said.split(' ').length + answerTokensMax, own);
}
