import { hash } from 'node:crypto';

/** One message as a model server reads it: text, or parts, of which only those of type `text` are read. */
export interface Message {
  role: string;
  content?: string | readonly { type: string; text?: string | undefined }[] | null | undefined;
}

/** The most that an answer repeats of the user's text, in UTF-16 units. */
const echoedMax = 2_000;

/** Accents, an emoji beyond 16 bits and one joined from several: a character is anything from one byte to 25. */
const multiByteText = 'Crème brûlée, Żółć, 東京の空, 한글, 🙂 and 👩‍👩‍👧‍👦.';

/**
 * The text that the simulated model answers, which is the same for the same messages: the last user message, some multi-byte characters,
 * and a digest of every message, which shows a lost or changed one. `repeat 20` in the last user message makes the answer 20 times as
 * long (9,999 at most). Each choice of several has its own text.
 */
export function answerFor(messages: readonly Message[], choice = 0): string {
  const said = lastUserText(messages);
  const opening = choice === 0 ? '' : `Choice ${choice + 1}. `;
  return repeated(`${opening}You said: ${echoOf(said)}. ${closingFor(messages)}`, said);
}

/** The text that the simulated model answers to the result of a tool, which it quotes. Otherwise as `answerFor`. */
export function resultAnswerFor(messages: readonly Message[]): string {
  return repeated(`The tool says: ${echoOf(lastResults(messages))}. ${closingFor(messages)}`, lastUserText(messages));
}

/** The texts of the results of tools at the end of the messages. */
export function lastResults(messages: readonly Message[]): string {
  return messages
    .slice(messages.findLastIndex(({ role }) => role !== 'tool') + 1)
    .map(textOf)
    .join(' ');
}

/** Whether the last message is the result of a tool. */
export function answersResult(messages: readonly Message[]): boolean {
  return messages.at(-1)?.role === 'tool';
}

/** The arguments that the simulated model passes to every tool, as JSON. */
export function toolArgumentsFor(messages: readonly Message[]): string {
  return JSON.stringify({ said: lastUserText(messages).slice(0, 200).toWellFormed(), digest: digest(messages) });
}

/** The refusal of the simulated model, if the last user message says `refuse to answer`. */
export function refusalFor(messages: readonly Message[]): string | undefined {
  return /\brefuse to answer\b/.test(lastUserText(messages)) ? `I'm sorry, not ${digest(messages)}.` : undefined;
}

/** The reasoning before the answer, if the last user message says `think aloud`. */
export function thoughtsFor(messages: readonly Message[]): string {
  return /\bthink aloud\b/.test(lastUserText(messages)) ? `Hm, 東京 – that is ${digest(messages)}.` : '';
}

/** Splits a text into the simulated model's tokens: up to four characters, with the white space before them. */
export function pieces(text: string): string[] {
  return text.match(/\s*\S{1,4}|\s+/gu) ?? [];
}

/** The text of the last user message; empty if there is none. */
export function lastUserText(messages: readonly Message[]): string {
  const last = messages.findLast(({ role }) => role === 'user');
  return last === undefined ? '' : textOf(last);
}

/** The tokens of all messages' texts. */
export function promptTokensOf(messages: readonly Message[]): number {
  return messages.reduce((sum, message) => sum + pieces(textOf(message)).length, 0);
}

/** The same tokens as the prefix cache of an engine sees them. */
export function promptOf(messages: readonly Message[]): string[] {
  return messages.flatMap((message) => asMessage(message.role, pieces(textOf(message))));
}

/** The tokens of a message, of which the first names the role: the same text of another role is other tokens. */
export function asMessage(role: string, tokens: readonly string[]): string[] {
  return tokens.map((token, index) => (index === 0 ? `<${role}>${token}` : token));
}

/** Twelve hexadecimal digits that change with the role or text of any message. */
export function digest(messages: readonly Message[]): string {
  const texts = messages.map((message) => [message.role, textOf(message)]);
  return hash('sha256', JSON.stringify(texts)).slice(0, 12);
}

function echoOf(text: string): string {
  return text.slice(0, echoedMax).toWellFormed();
}

function closingFor(messages: readonly Message[]): string {
  return `${multiByteText} Digest ${digest(messages)}.`;
}

/** The text, as many times as `repeat 20` in what was said asks for. */
export function repeated(text: string, said: string): string {
  const times = Number(/\brepeat (\d{1,4})\b/.exec(said)?.[1] ?? 1);
  return Array.from({ length: Math.max(1, times) }, () => text).join('\n');
}

function textOf({ content }: Message): string {
  if (typeof content === 'string') return content;
  return (content ?? []).map((part) => (part.type === 'text' ? (part.text ?? '') : '')).join('\n');
}
