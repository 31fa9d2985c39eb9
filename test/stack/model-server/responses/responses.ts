import { defineEndpoint } from '../endpoint.ts';
import { openAiErrors } from '../openai-form.ts';
import { answerResponse } from './answer-response.ts';
import { wholeResponse } from './format-response.ts';
import { responseSchema } from './read-response.ts';
import { responseEvents, responseForm } from './response-events.ts';

export const responses = defineEndpoint({
  path: '/v1/responses',
  streams: true,
  errors: openAiErrors,
  schema: responseSchema,
  answer(request, setting) {
    const limit = setting.ignoresLimit ? { max_output_tokens: undefined } : {};
    const answer = answerResponse({ ...request, ...limit });
    const named = { request, answer, setting };
    return {
      promptTokens: answer.promptTokens,
      completionTokens: answer.completionTokens,
      whole: () => JSON.stringify(wholeResponse(named)),
      events: () => responseEvents(named),
      form: responseForm(named),
    };
  },
});
