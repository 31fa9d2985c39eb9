import type { Answer } from './stream-answer.ts';
import { type Draft, documentsOf, type Message, type TriedEndpoint, written } from './tried-endpoint.ts';

/** What a model has answered so far, or why it did not. */
export type Reply = {
  model: string;
  state: 'running' | 'stopped' | 'done' | 'failed';
  answer?: Answer | undefined;
  error?: unknown;
};

/** What was sent, with the replies of one model, or of two side by side. */
export type Turn = {
  id: number;
  text: string;
  documents: readonly string[];
  /** Whether it is a message of the conversation; if not, it stands alone. */
  isMessage: boolean;
  replies: readonly Reply[];
};

/** What the page has asked for: a draft whose messages are those of the conversation. */
export type Composition = Omit<Draft, 'messages'> & {
  system: string;
  /** The next message. */
  message: string;
  /** A second model for the same message; empty for none. */
  comparedModel: string;
};

/**
 * The messages for one column: the system text, what this column has answered before, and the next message. A message without an answer is
 * left out. Without a next message, the last one is sent again: then it is a program of the last request.
 */
export function messagesOf({ system, message }: Composition, turns: readonly Turn[], column: number): Message[] {
  const answered = turns
    .filter(({ isMessage }) => isMessage)
    .map(({ text, replies }) => ({ text, reply: replies[column] ?? replies[0] }))
    .filter(({ reply }) => reply?.state !== 'failed' && (reply?.answer?.text ?? '') !== '');
  const past = answered.flatMap(({ text, reply }): Message[] => [
    { role: 'user', content: text },
    { role: 'assistant', content: reply?.answer?.text ?? '' },
  ]);
  const isNew = message.trim() !== '';
  const next: Message[] = isNew ? [{ role: 'user', content: message }] : [];
  return written([{ role: 'system', content: system }, ...(isNew ? past : past.slice(0, -1)), ...next]);
}

/** Whether there is nothing to send. */
export function isEmpty({ message, input, documents }: Composition, { takes }: Pick<TriedEndpoint, 'takes'>): boolean {
  if (takes === 'messages') return message.trim() === '';
  return input.trim() === '' || (takes === 'documents' && documentsOf({ documents }).length === 0);
}

/** A turn that was just sent to these models. */
export function newTurn(
  composition: Composition,
  { takes }: TriedEndpoint,
  models: readonly string[],
): Omit<Turn, 'id'> {
  return {
    text: takes === 'messages' ? composition.message : composition.input,
    documents: takes === 'documents' ? documentsOf(composition) : [],
    isMessage: takes === 'messages',
    replies: models.map((model) => ({ model, state: 'running' })),
  };
}

/** With this part of a reply changed; the same if the turn was cleared. */
export function withReply(turns: readonly Turn[], at: { id: number; column: number }, part: Partial<Reply>): Turn[] {
  return turns.map((turn) =>
    turn.id === at.id
      ? { ...turn, replies: turn.replies.map((reply, index) => (index === at.column ? { ...reply, ...part } : reply)) }
      : turn,
  );
}
