import type { ChatChunk } from '../../shared/chat-completion.ts';
import { BackendError } from './backend-error.ts';
import { type BackendAnswer, readUsage, writtenText } from './convert-answer.ts';

/** How far a streamed answer is. */
export interface AnswerProgress {
  follow(chunk: ChatChunk): void;
  /** `[DONE]` has come. */
  finish(): void;
  /** A role alone is no token: until there is one, or an end without any, the answer proper has not begun. */
  begun(): boolean;
  /**
   * The backend has said that it is done: by `[DONE]`, or by a `finish_reason` for each of the choices that it was asked for.
   * An end without this is a stream that broke off (API D4).
   */
  complete(choicesAsked: () => number): boolean;
  /** The last usage that could be read, as tokens and in the backend's own words. */
  usage(): BackendAnswer['usage'];
  reportedUsage(): unknown;
}

/** As many as a client can ask for. */
export const choicesMax = 128;

export function createAnswerProgress(): AnswerProgress {
  let begun = false;
  let done = false;
  let usage: BackendAnswer['usage'];
  let reportedUsage: unknown;
  const open = new Set<number>();
  const finished = new Set<number>();

  return {
    follow({ choices, usage: reported }) {
      for (const { index, delta, finish_reason } of choices) {
        open.add(index);
        if (open.size > choicesMax) throw new BackendError('unreadable', `there are more than ${choicesMax} choices`);
        if (finish_reason) finished.add(index);
        begun ||= Boolean(finish_reason) || writtenText(delta) !== '';
      }
      const readable = reported == null ? undefined : readUsage(reported);
      if (readable === undefined) return;
      usage = readable;
      reportedUsage = reported;
    },
    finish() {
      done = true;
    },
    begun: () => begun,
    complete: (choicesAsked) => begun && (done || (finished.size === open.size && finished.size >= choicesAsked())),
    usage: () => usage,
    reportedUsage: () => reportedUsage,
  };
}
