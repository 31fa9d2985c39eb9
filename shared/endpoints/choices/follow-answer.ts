import { BackendError } from '../answers/backend-error.ts';
import type { ReportedUsage, Written } from '../definition/answer-format.ts';
import { type Chunk, writtenIn } from './choices-schemas.ts';
import { readUsage } from './convert-answer.ts';

/** Follows a streamed answer to its end. */
export interface AnswerProgress {
  /** Takes a chunk. Returns what came with it. */
  follow(chunk: Chunk): Written;
  /** Like `follow`, for a chunk that differs from an earlier one only in its text. The earlier one ended no choice. */
  followText(text: string): Written;
  /** `[DONE]` has come. */
  finish(): void;
  /** Whether the answer proper has begun: a token came, or an end without tokens. A role alone is no token. */
  begun(): boolean;
  /**
   * Whether the backend has reported the end: by `[DONE]`, or by a `finish_reason` for each choice that it was asked for. A stream that
   * ends without it broke off (contract.md#q4-completeness).
   */
  complete(choicesAsked: () => number): boolean;
  /** Of the choices asked for, and others that have begun: those that had not finished before the latest chunk. */
  unfinished(choicesAsked: number): number[];
  /** The last readable usage: as tokens, and as the backend reported it. */
  usage(): ReportedUsage | undefined;
  reportedUsage(): unknown;
}

/** `asked`: the choices that were asked for. Beside several, a usage is that of one: the sum is in a chunk without choices. */
export function createAnswerProgress({ choicesMax, asked }: { choicesMax: number; asked: number }): AnswerProgress {
  let begun = false;
  let done = false;
  let usage: ReportedUsage | undefined;
  let reportedUsage: unknown;
  const open = new Set<number>();
  const finished = new Set<number>();
  const finishedLatest = new Set<number>();

  return {
    follow({ choices, usage: reported }) {
      let text = '';
      finishedLatest.clear();
      for (const choice of choices) {
        const { index, finish_reason } = choice;
        open.add(index);
        if (open.size > choicesMax) throw new BackendError('unreadable', `there are more than ${choicesMax} choices`);
        if (finish_reason && !finished.has(index)) finishedLatest.add(index);
        if (finish_reason) finished.add(index);
        const part = writtenIn(choice);
        text += part;
        // A message is whole, and comes with or after the text.
        begun ||= Boolean(finish_reason) || ((choice.delta ?? choice.text) != null && part !== '');
      }
      const isOfAll = asked === 1 || choices.length === 0;
      const readable = reported == null || !isOfAll ? undefined : readUsage(reported);
      if (readable === undefined) return { text, tokens: undefined };
      usage = readable;
      reportedUsage = reported;
      return { text, tokens: readable.completionTokens };
    },
    followText(text) {
      finishedLatest.clear();
      begun = true;
      return { text, tokens: undefined };
    },
    finish() {
      done = true;
    },
    begun: () => begun,
    complete: (choicesAsked) => begun && (done || (finished.size === open.size && finished.size >= choicesAsked())),
    unfinished(choicesAsked) {
      const all = new Set([...Array.from({ length: choicesAsked }, (_, index) => index), ...open]);
      const isOpen = (index: number) => !finished.has(index) || finishedLatest.has(index);
      return [...all].filter(isOpen).toSorted((one, other) => one - other);
    },
    usage: () => usage,
    reportedUsage: () => reportedUsage,
  };
}
