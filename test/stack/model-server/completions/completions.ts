import { defineEndpoint } from '../endpoint.ts';
import { openAiErrors } from '../openai-form.ts';
import { answerCompletion, completionSchema } from './answer-completion.ts';
import { completionEvents, completionForm, formatCompletion, type Heading } from './format-completion.ts';

export const completions = defineEndpoint({
  path: '/v1/completions',
  streams: true,
  errors: openAiErrors,
  schema: completionSchema,
  answer(completion, { id, server, created, withUsage, ignoresLimit }) {
    const answer = answerCompletion(ignoresLimit ? { ...completion, max_tokens: undefined } : completion);
    const { model } = completion;
    const heading: Heading = {
      ...{ id: `cmpl-${id}`, object: 'text_completion', created, model, system_fingerprint: server },
    };
    const logprobs = typeof completion.logprobs === 'number';
    const streamsUsage = withUsage && completion.stream_options?.include_usage === true;
    const { promptTokens, completionTokens } = answer;
    return {
      promptTokens,
      completionTokens,
      whole: () => formatCompletion(answer, heading, { logprobs, usage: withUsage }),
      events: () => completionEvents(answer, heading, { logprobs, usage: streamsUsage }),
      form: completionForm,
    };
  },
});
