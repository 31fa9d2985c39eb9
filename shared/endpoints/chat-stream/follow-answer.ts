import { BackendError } from '../answers/backend-error.ts';
import { hasContent } from '../answers/written-text.ts';
import type { ReportedUsage, StreamOptions, WrittenPart } from '../definition/answer-format.ts';
import { readUsage, sumOfChoices, usageIn } from './choices-usage.ts';
import { type Chunk, writtenIn } from './parse-chunk.ts';

type Choice = Chunk['choices'][number];
type ProgressOptions = { choicesMax: number } & Pick<StreamOptions, 'choices' | 'prompts'>;

/** Follows a streamed answer to its end. */
export function createAnswerProgress({ choicesMax, choices: asked, prompts }: ProgressOptions) {
  let begun = false;
  let done = false;
  const open = new Set<number>();
  const finished = new Set<number>();
  const finishedLatest = new Set<number>();
  const reports = createReports({ choices: asked, prompts });

  function followChoice(choice: Choice): string {
    const { finish_reason: reason } = choice;
    const index = choice.index ?? 0;
    open.add(index);
    if (open.size > choicesMax) throw new BackendError('unreadable', `there are more than ${choicesMax} choices`);
    if (reason && !finished.has(index)) finishedLatest.add(index);
    if (reason) finished.add(index);
    const text = writtenIn(choice);
    // A message is whole, and comes with or after the text.
    begun ||= Boolean(reason) || ((choice.delta ?? choice.text) != null && (text !== '' || hasContent(choice.delta)));
    return text;
  }

  function takeReports(chunk: Chunk): boolean {
    const { choices } = chunk;
    let isReported = false;
    for (const { index, usage } of choices) {
      if (usage != null && reports.addOfChoice(index ?? 0, usage)) isReported = true;
    }
    // Beside several choices, it is that of one, so far.
    const usage = asked === 1 || choices.length === 0 ? usageIn(chunk) : undefined;
    return (usage != null && reports.addAfter([...finished].at(-1), usage)) || isReported;
  }

  return {
    /** Takes a chunk. Returns what came with it. */
    follow(chunk: Chunk): WrittenPart {
      finishedLatest.clear();
      let text = '';
      for (const choice of chunk.choices) text += followChoice(choice);
      if (text !== '') reports.textCame();
      const isReported = takeReports(chunk);
      // Beside text, no tokens are no report.
      return { text, tokens: (isReported && reports.usage()?.completionTokens) || undefined };
    },
    /** Like `follow`, for a chunk that differs from an earlier one only in its text. The earlier one ended no choice. */
    followText(text: string): WrittenPart {
      finishedLatest.clear();
      begun = true;
      reports.textCame();
      return { text, tokens: undefined };
    },
    /** `[DONE]` has come. */
    finish(): void {
      done = true;
    },
    /** Whether the answer proper has begun: a token or an image came, or an end without tokens. A role alone is no token. */
    begun: (): boolean => begun,
    /**
     * Whether the backend has reported the end: by a `finish_reason` for each choice that it was asked for, or by `[DONE]` after one for
     * each choice that has begun, or for none. A stream that ends without it broke off (contract.md#ms1-complete-answers).
     */
    complete(choicesAsked: () => number): boolean {
      if (!begun) return false;
      const areAllFinished = finished.size === open.size;
      return done ? areAllFinished || finished.size === 0 : areAllFinished && finished.size >= choicesAsked();
    },
    /** Of the choices asked for, and others that have begun: those that had not finished before the latest chunk. */
    unfinished(choicesAsked: number): number[] {
      const all = new Set([...Array.from({ length: choicesAsked }, (_, index) => index), ...open]);
      const isOpen = (index: number) => !finished.has(index) || finishedLatest.has(index);
      return inOrder([...all].filter(isOpen));
    },
    /** The choices that `[DONE]` has ended, because none has a `finish_reason`. */
    endedByDone: (): number[] => (done && finished.size === 0 ? inOrder([...open]) : []),
    /** The last readable usage, or the sum of those of several choices: as tokens. The last one also as the backend reported it. */
    usage: reports.usage,
    reportedUsage: reports.latest,
  };
}

function inOrder(indexes: readonly number[]): number[] {
  return indexes.toSorted((one, other) => one - other);
}

/** The usages that were reported. With one choice, only the last one counts. */
function createReports({ choices: asked, prompts }: Pick<ProgressOptions, 'choices' | 'prompts'>) {
  /** By choice: reported in it, and reported after its end. */
  const within = new Map<number, ReportedUsage>();
  const after = new Map<number, ReportedUsage>();
  let only: ReportedUsage | undefined;
  let latest: unknown;
  let isBeforeText = false;

  /** False if it cannot be read. */
  function add(reported: unknown, keep: (usage: ReportedUsage) => void): boolean {
    const usage = readUsage(reported);
    if (usage === undefined) return false;
    keep(usage);
    latest = reported;
    isBeforeText = false;
    return true;
  }
  function keepOnly(usage: ReportedUsage): void {
    only = usage;
  }

  return {
    addOfChoice: (index: number, reported: unknown) =>
      add(reported, asked === 1 ? keepOnly : (usage) => within.set(index, usage)),
    /** `ended`: the choice that has ended last. Some servers report each choice alone, others all of them after the last one. */
    addAfter: (ended: number | undefined, reported: unknown) =>
      add(reported, asked === 1 || ended === undefined ? keepOnly : (usage) => after.set(ended, usage)),
    textCame(): void {
      isBeforeText = true;
    },
    usage(): ReportedUsage | undefined {
      const sum = (reports: typeof after) => sumOfChoices([...reports.values()], asked / prompts);
      const usage = asked === 1 ? only : (sum(after) ?? sum(within) ?? only);
      return usage === undefined || !isBeforeText ? usage : { ...usage, isPartial: true };
    },
    latest: () => latest,
  };
}
