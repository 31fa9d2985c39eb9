import { hash } from 'node:crypto';
import { answersResult, lastResults, lastUserText, type Message, repeated } from './text.ts';

/** Makes the model answer in plain words, for people. `docsUrl`: the documentation, which says how to connect a real model. */
export interface Demo {
  readonly docsUrl: string;
}

type Asked = { model: string; messages: readonly Message[]; choice?: number };

const quotedMax = 300;

/**
 * The answer of the demo, as the words that are its tokens. It depends on the conversation only: the first one introduces the model, and
 * later ones say something about the service. `repeat 20` in the last user message makes it 20 times as long.
 */
export function demoTokens({ model, messages, choice = 0 }: Asked, { docsUrl }: Demo): string[] {
  const said = lastUserText(messages);
  const pick = (texts: readonly string[]) => texts[numberOf(`${choice} ${said}`) % texts.length] ?? '';
  const turn = Math.max(1, messages.filter(({ role }) => role === 'user').length);
  const sentences = [
    pick(openingsFor(said)),
    ...(turn === 1 ? [`I am ${model}, a simulated model of this demo.`] : []),
    countOf(said),
    turn === 1 ? `Connect a real model: ${docsUrl}` : `This is turn ${turn} of our conversation. ${pick(facts)}`,
  ];
  const result = `The tool says: ${lastResults(messages).slice(0, quotedMax).toWellFormed()}`;
  return wordsOf(repeated(answersResult(messages) ? result : sentences.join(' '), said));
}

function openingsFor(said: string): readonly string[] {
  if (/^\W*(hi|hello|hey|good (morning|afternoon|evening))\b/i.test(said))
    return ['Hello!', 'Hi there!', 'Hello, and welcome!'];
  if (/\b(thanks|thank you)\b/i.test(said)) return ['You are welcome!', 'With pleasure!', 'Any time!'];
  if (said.trimEnd().endsWith('?'))
    return ['Good question!', 'A real model would know.', 'I would love to know that, too.'];
  return ['Thank you for your message.', 'I have read every word.', 'Noted!', 'That is good to hear.'];
}

const facts = [
  'The console shows this request under Requests, with how long each step took.',
  'I write one word after the other, so you can watch a stream.',
  'Your request waited its turn in the queue before I got it.',
  'Two other servers have the same model. If this one fails, they answer.',
  'Every token of this answer counts in your usage.',
  'Ask for several choices, and each of them is a little different.',
];

function countOf(text: string): string {
  const count = text.match(/\S+/g)?.length ?? 0;
  return count === 0
    ? 'You wrote nothing.'
    : `You wrote ${count.toLocaleString('en')} ${count === 1 ? 'word' : 'words'}.`;
}

function wordsOf(text: string): string[] {
  return text.match(/\s*\S+|\s+/gu) ?? [];
}

function numberOf(text: string): number {
  return Number.parseInt(hash('sha256', text).slice(0, 8), 16);
}
