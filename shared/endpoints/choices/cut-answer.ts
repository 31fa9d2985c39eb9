import { isObject } from '../../is-object.ts';
import { cutFields, cutLists, longestWithin } from '../answers/cut-text.ts';
import { type ChoicesAnswer, writtenIn } from './choices-schemas.ts';
import type { BackendAnswer } from './convert-answer.ts';

/**
 * Returns this share of a whole answer. The longest choices are cut at their ends, so that no choice is cut while a longer one remains:
 * the model's reasoning comes first, then its text, then its tool calls. They end as a backend ends them at its limit.
 */
export function cutAnswer({ answer, usage }: BackendAnswer, shareOfAll: number): BackendAnswer {
  const lengths = answer.choices.map((choice) => writtenIn(choice).length);
  const longest = longestWithin(lengths, shareOfAll * lengths.reduce((sum, length) => sum + length, 0));
  const choices = answer.choices.map((choice, index) => {
    const written = lengths[index] ?? 0;
    return written <= longest ? choice : cutChoice(choice, longest, longest / written);
  });
  const cut = { ...answer, choices };
  return { text: JSON.stringify(cut), answer: cut, usage };
}

type Choice = ChoicesAnswer['choices'][number];

function cutChoice(choice: Choice, length: number, share: number): Choice {
  const { message, text, logprobs } = choice;
  const budget = () => ({ left: Math.floor(length) });
  return {
    ...choice,
    ...(message != null && { message: cutFields(message, budget()) }),
    ...(text != null && cutFields({ text }, budget())),
    ...(isObject(logprobs) && { logprobs: cutLists(logprobs, share) }),
    finish_reason: 'length',
  };
}
