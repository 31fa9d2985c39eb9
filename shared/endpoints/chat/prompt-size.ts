import { isObject } from '../../is-object.ts';
import type { Prompt } from '../definition/request-format.ts';
import {
  estimateWithMedia,
  type MediaSum,
  type ReadMedia,
  readAll,
  readOpenAiMedia,
  tokensOfMessages,
  within,
  withinEach,
  withoutMedia,
  withoutOpaque,
} from '../tokens/media-tokens.ts';
import { fieldTexts, textsIn, toolTexts } from '../tokens/texts-in.ts';

/** Estimates the number of tokens in the prompt of a chat request, valid or not. `text` is the request as JSON. */
export function estimateChatPrompt(request: object, text: string): number {
  const estimate = estimateWithMedia(request, { text, fields: ['messages'], readMedia });
  return estimate + tokensOfMessages(request, 'messages');
}

/** What a template or a server may write into the prompt, besides the messages and the tools. */
const otherFields = ['documents', 'chat_template_kwargs', 'response_format'] as const;

type PromptFields = Partial<Record<'messages' | 'tools' | 'functions' | (typeof otherFields)[number], unknown>>;

/** The texts of a payload, for the tokenizer, and the tokens of its media. */
export function chatPrompt(payload: PromptFields): Prompt {
  const media: MediaSum = { tokens: tokensOfMessages(payload, 'messages'), texts: [] };
  const shown = withoutMedia(payload.messages, readMedia, media);
  const messages = Array.isArray(shown) ? shown.filter(isObject) : [];
  // A model gets the parts of a message without anything between them.
  const texts = messages.map((message) => textsIn(message, textFields).join(''));
  const calls = messages.flatMap((message) => textsIn(message.tool_calls, callFields));
  const tools = [...toolTexts(payload.tools), ...toolTexts(payload.functions)];
  const others = fieldTexts(payload, otherFields);
  return { texts: [...texts, ...calls, ...tools, ...others, ...media.texts], tokens: media.tokens };
}

const textFields = new Set(['content', 'text', 'refusal', 'reasoning', 'reasoning_content']);
const callFields = new Set(['function', 'custom']);

const readMedia: ReadMedia = (part) => readOpenAiMedia(part) ?? readReasoning(part);

/** Of an assistant's message. */
const readReasoning: ReadMedia = (message) =>
  message.role === 'assistant' ? readAll(message, [readDetails, readThinking, readCalls, readSignature]) : undefined;

/** Encrypted reasoning and signatures in the form of OpenRouter (its guide "Reasoning tokens"). */
const readDetails: ReadMedia = (message) =>
  withinEach(message, 'reasoning_details', (detail) =>
    withoutOpaque(detail, detail.type === 'reasoning.encrypted' ? 'data' : 'signature'),
  );

/** Anthropic's parts in the form of LiteLLM (its guide "Reasoning content"). */
const readThinking: ReadMedia = (message) =>
  withinEach(message, 'thinking_blocks', (block) =>
    withoutOpaque(block, block.type === 'redacted_thinking' ? 'data' : 'signature'),
  );

const readCalls: ReadMedia = (message) => withinEach(message, 'tool_calls', (call) => readSignature(call));

/** The signature that Google's API returns with a message or a call (its guide "Thought signatures"). */
const readSignature: ReadMedia = (part) =>
  within(part, 'extra_content', (extra) =>
    within(extra, 'google', (google) => withoutOpaque(google, 'thought_signature')),
  );
