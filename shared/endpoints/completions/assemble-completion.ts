import { isObject } from '../../is-object.ts';
import type { AssembledChoice } from '../choices/assemble-choices.ts';
import { type MergedDeltas, mergeDeltas } from '../choices/merge-deltas.ts';
import type { SizeBudget } from '../definition/answer-format.ts';
import { defaultExtraFields } from '../fields/extra-fields.ts';
import type { CompletionRequest } from './completion-request.ts';

/** Assembles a choice of a completion. Its log probabilities are lists of the same length, each of which grows. */
export function createCompletionChoice(budget: SizeBudget): AssembledChoice {
  const fields = mergeDeltas(budget);
  let allLogprobs: MergedDeltas | undefined;
  return {
    add(part, size) {
      const { text, logprobs, finish_reason: reason, index: _, usage: _usage, ...others } = part;
      if (text != null) fields.extend('text', text, size);
      // Some servers send an empty reason for none.
      if (reason !== undefined) fields.replace('finish_reason', reason || null, size);
      for (const name in others) fields.replace(name, others[name], size);
      if (!isObject(logprobs)) return;
      allLogprobs ??= mergeDeltas(budget);
      for (const name in logprobs) allLogprobs.extend(name, logprobs[name], size);
    },
    end: (reason) => fields.replace('finish_reason', reason, 0),
    toObject: () => ({
      text: '',
      logprobs: allLogprobs?.toObject() ?? null,
      finish_reason: null,
      ...fields.toObject(),
    }),
  };
}

/** OpenAI's fields, except `best_of`, which needs all of the answers, and `echo`, which some servers ignore in a stream. */
const openai = [
  ...['model', 'prompt', 'stream', 'stream_options', 'max_tokens', 'temperature', 'top_p', 'n', 'stop', 'seed'],
  ...['user', 'suffix', 'presence_penalty', 'frequency_penalty', 'logit_bias', 'logprobs'],
];

const meansTheSame = new Set([...openai, ...defaultExtraFields]);

/** As `canBeAssembled` of chat completions. A field that is null or false has no effect. */
export function canBeAssembled(request: CompletionRequest): boolean {
  return Object.entries(request).every(([field, value]) => value == null || value === false || meansTheSame.has(field));
}
