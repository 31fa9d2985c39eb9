import { defineEndpoint } from '../endpoint.ts';
import { openAiErrors } from '../openai-form.ts';
import { answerChat, chatSchema } from './answer-chat.ts';
import { chatForm, formatEvents, formatReply } from './format-chat.ts';

const unlimited = { max_tokens: undefined, max_completion_tokens: undefined };

export const chatCompletions = defineEndpoint({
  path: '/v1/chat/completions',
  streams: true,
  errors: openAiErrors,
  schema: chatSchema,
  answer(chat, { id, server, created, withUsage, ignoresLimit }) {
    const answer = answerChat(ignoresLimit ? { ...chat, ...unlimited } : chat);
    const name = { id: `chatcmpl-${id}`, server, model: chat.model, created };
    const { promptTokens, completionTokens } = answer;
    return {
      promptTokens,
      completionTokens,
      whole: () => formatReply(answer, name, withUsage),
      events: () => formatEvents(answer, name, withUsage && chat.stream_options?.include_usage === true),
      form: chatForm,
    };
  },
});
