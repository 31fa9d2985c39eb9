import { streamEvents } from './chat.ts';

/** The result for a client: the correct answer, an error with its status, or a part of the answer and an error frame. */
export type ChatEnding =
  | { kind: 'answer' }
  | { kind: 'error'; status: number; code: string; tier?: string; attempted?: string[] }
  | { kind: 'part'; code: string }
  | { kind: 'unlike anything'; detail: string };

type Expected = { stream: boolean; answer: string };

/** How a chat completion ended for its client, and the text received. A part is the beginning of the answer, repeated or not. */
export function readEnding(status: number, body: string, expected: Expected): { ending: ChatEnding; text: string } {
  const unlike: ChatEnding = { kind: 'unlike anything', detail: `${status} ${body.slice(-500)}` };
  if (status !== 200) {
    const { error, code, tier, attempted } = JSON.parse(body); // a response of the service itself
    const named = { ...(tier !== undefined && { tier }), ...(attempted !== undefined && { attempted }) };
    const isFlat = typeof error === 'string' && typeof code === 'string';
    return { ending: isFlat ? { kind: 'error', status, code, ...named } : unlike, text: '' };
  }
  if (expected.stream) return readStream(body, expected.answer, unlike);
  const text: unknown = JSON.parse(body).choices[0].message.content;
  return { ending: text === expected.answer ? { kind: 'answer' } : unlike, text: String(text) };
}

function readStream(body: string, answer: string, unlike: ChatEnding): { ending: ChatEnding; text: string } {
  const events = streamEvents(body);
  const text = events.map((event) => (event === '[DONE]' ? '' : (event.choices?.[0]?.delta?.content ?? ''))).join('');
  const last = events.at(-1);
  if (last === '[DONE]') return { ending: text === answer ? { kind: 'answer' } : unlike, text };
  const { code, type, message, param } = last?.error ?? {};
  const isFrame = code !== undefined && typeof type === 'string' && typeof message === 'string' && param === null;
  const isBeginning = answer.repeat(Math.ceil(text.length / answer.length)).startsWith(text);
  // A stream that begins late has comments before its error.
  const isPart = text === '' ? body.startsWith(':') : isBeginning;
  return { ending: isFrame && isPart && !body.includes('[DONE]') ? { kind: 'part', code } : unlike, text };
}
