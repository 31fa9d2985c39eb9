import { createChatChoice } from '../../shared/endpoints/chat/assemble-choice.ts';
import { chatKind } from '../../shared/endpoints/chat/chat.ts';
import { createChoicesAssembler } from '../../shared/endpoints/chat-stream/assemble-choices.ts';

/** Assembles a chat completion. */
export const createAnswerAssembler = createChoicesAssembler(chatKind, createChatChoice);
