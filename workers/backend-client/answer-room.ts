import type { HeldAnswer } from '../../shared/bytes/answer-budget.ts';
import type { Source } from '../../shared/bytes/held-bytes.ts';
import { createSizeBudget } from '../../shared/endpoints/answers/size-budget.ts';
import type { SizeBudget } from '../../shared/endpoints/definition/answer-format.ts';

/** The room for the answer of one call: what is spent counts in the budget of the process, up to the limit of one answer. */
export interface AnswerRoom extends SizeBudget {
  /** The answer begins to come from this source. */
  readFrom(source: Source): void;
}

export function createAnswerRoom({ held, bytesMax }: { held: HeldAnswer; bytesMax: number }): AnswerRoom {
  const size = createSizeBudget(bytesMax);
  return {
    readFrom: held.readFrom,
    spend(bytes) {
      held.add(bytes);
      size.spend(bytes);
    },
  };
}
