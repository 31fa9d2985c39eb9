import { defineEndpoint } from '../endpoint.ts';
import { asMessage, promptOf } from '../model/text.ts';
import { openAiErrors } from '../openai-form.ts';
import { answerResponse } from './answer-response.ts';
import { wholeResponse } from './format-response.ts';
import { messagesOfResponse, responseSchema } from './read-response.ts';
import { responseEvents, responseForm } from './response-events.ts';

export const responses = defineEndpoint({
  path: '/v1/responses',
  streams: true,
  errors: openAiErrors,
  schema: responseSchema,
  answer(request, setting) {
    const limit = setting.ignoresLimit ? { max_output_tokens: undefined } : {};
    const answer = answerResponse({ ...request, ...limit }, setting.demo);
    const prompt = () => promptOf(messagesOfResponse(request));
    const answers = () => [
      asMessage(
        'assistant',
        answer.parts.flatMap(({ tokens }) => tokens),
      ),
    ];
    const cachedTokens = setting.cachedTokensOf(() => [{ prompt: prompt(), answers: answers() }]);
    const named = { request, answer: { ...answer, cachedTokens }, setting };
    return {
      promptTokens: answer.promptTokens,
      cachedTokens,
      completionTokens: answer.completionTokens,
      whole: () => JSON.stringify(wholeResponse(named)),
      events: () => responseEvents(named),
      form: responseForm(named),
    };
  },
});
