import { defineEndpoint, type Endpoint } from '../endpoint.ts';
import { asMessage, promptOf } from '../model/text.ts';
import { answerMessages, countedTokensOf } from './answer-messages.ts';
import { anthropicErrors, formatMessage, messageEvents, messagesForm } from './format-messages.ts';
import { countedSchema, messagesOfAnthropic, messagesSchema } from './read-messages.ts';

const anthropic: Pick<Endpoint, 'errors' | 'keyHeader' | 'ownHeaders'> = {
  errors: anthropicErrors,
  keyHeader: 'x-api-key',
  ownHeaders: ['anthropic-version', 'anthropic-beta'],
};

export const messages = defineEndpoint({
  ...anthropic,
  path: '/v1/messages',
  streams: true,
  schema: messagesSchema,
  answer(request, setting) {
    const limit = setting.ignoresLimit ? { max_tokens: Number.POSITIVE_INFINITY } : {};
    const answer = answerMessages({ ...request, ...limit }, setting.demo);
    const prompt = () => promptOf(messagesOfAnthropic(request));
    const answers = () => [
      asMessage(
        'assistant',
        answer.parts.flatMap(({ tokens }) => tokens),
      ),
    ];
    const cachedTokens = setting.cachedTokensOf(() => [{ prompt: prompt(), answers: answers() }]);
    const named = { model: request.model, answer: { ...answer, cachedTokens }, setting };
    return {
      promptTokens: answer.promptTokens,
      cachedTokens,
      completionTokens: answer.completionTokens,
      whole: () => formatMessage(named),
      events: () => messageEvents(named),
      form: messagesForm,
    };
  },
});

/** Counts the tokens of a prompt. The model reads nothing, so the call records none. */
export const countTokens = defineEndpoint({
  ...anthropic,
  path: '/v1/messages/count_tokens',
  streams: false,
  schema: countedSchema,
  answer(request, { withUsage }) {
    const whole = () => JSON.stringify(withUsage ? { input_tokens: countedTokensOf(request) } : {});
    return { promptTokens: 0, completionTokens: 0, whole, events: () => [], form: messagesForm };
  },
});
