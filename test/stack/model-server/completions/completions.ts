import { defineEndpoint } from '../endpoint.ts';
import { openAiErrors } from '../openai-form.ts';
import type { TokenSequence } from '../prefix-cache.ts';
import { answerCompletion, type CompletionAnswer, completionSchema } from './answer-completion.ts';
import { completionEvents, completionForm, formatCompletion, type Heading } from './format-completion.ts';

export const completions = defineEndpoint({
  path: '/v1/completions',
  streams: true,
  errors: openAiErrors,
  schema: completionSchema,
  answer(completion, { id, server, created, withUsage, ignoresLimit, cachedTokensOf, demo }) {
    const answer = answerCompletion(ignoresLimit ? { ...completion, max_tokens: undefined } : completion, demo);
    const { model } = completion;
    const heading: Heading = {
      ...{ id: `cmpl-${id}`, object: 'text_completion', created, model, system_fingerprint: server },
    };
    const logprobs = typeof completion.logprobs === 'number';
    const streamsUsage = withUsage && completion.stream_options?.include_usage === true;
    const { promptTokens, completionTokens } = answer;
    const cachedTokens = cachedTokensOf(() => sequencesOf(answer));
    const read = { ...answer, cachedTokens };
    return {
      promptTokens,
      cachedTokens,
      completionTokens,
      whole: () => formatCompletion(read, heading, { logprobs, usage: withUsage }),
      events: () => completionEvents(read, heading, { logprobs, usage: streamsUsage }),
      form: completionForm,
    };
  },
});

/** Of each prompt, as many choices as of any other one. */
function sequencesOf({ prompts, choices }: CompletionAnswer): TokenSequence[] {
  const each = choices.length / prompts.length;
  return prompts.map((prompt, index) => ({
    prompt,
    answers: choices.slice(index * each, (index + 1) * each).map(({ content }) => content),
  }));
}
