import { defineEndpoint } from '../endpoint.ts';
import { contentOf } from '../model/choose-answer.ts';
import { asMessage, promptOf } from '../model/text.ts';
import { openAiErrors } from '../openai-form.ts';
import { answerChat, chatSchema } from './answer-chat.ts';
import { chatForm, formatEvents, formatReply } from './format-chat.ts';

const unlimited = { max_tokens: undefined, max_completion_tokens: undefined };

export const chatCompletions = defineEndpoint({
  path: '/v1/chat/completions',
  streams: true,
  errors: openAiErrors,
  schema: chatSchema,
  answer(chat, { id, server, created, withUsage, ignoresLimit, cachedTokensOf, demo }) {
    const answer = answerChat(ignoresLimit ? { ...chat, ...unlimited } : chat, demo);
    const name = { id: `chatcmpl-${id}`, server, model: chat.model, created };
    const { promptTokens, completionTokens, choices } = answer;
    const answers = () => choices.map((choice) => asMessage('assistant', contentOf(choice)));
    const cachedTokens = cachedTokensOf(() => [{ prompt: promptOf(chat.messages), answers: answers() }]);
    const read = { ...answer, cachedTokens };
    return {
      promptTokens,
      cachedTokens,
      completionTokens,
      whole: () => formatReply(read, name, withUsage),
      events: () => formatEvents(read, name, withUsage && chat.stream_options?.include_usage === true),
      form: chatForm,
    };
  },
});
