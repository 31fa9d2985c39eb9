import { isObject } from '../../is-object.ts';
import type { Prompt } from '../definition/request-format.ts';
import { tokensByPixels, tokensPerImage } from '../tokens/image-tokens.ts';
import {
  type EmptiedPart,
  estimateWithMedia,
  isBase64,
  type MediaSum,
  type Part,
  type ReadMedia,
  readAll,
  sizeOfFile,
  tokensOfMessages,
  withinEach,
  withoutMedia,
  withoutOpaque,
} from '../tokens/media-tokens.ts';
import { fieldTexts, textsIn, toolTexts } from '../tokens/texts-in.ts';

const fields = ['messages', 'system'];

/** Estimates the tokens of the prompt of a request, valid or not. `text` is the request as JSON. */
export function estimateMessagePrompt(request: object, text: string): number {
  return estimateWithMedia(request, { text, fields, readMedia }) + tokensOfMessages(request, 'messages');
}

const readMedia: ReadMedia = (part) => {
  switch (part.type) {
    case 'image':
      return (
        readSource(part, (data) => ({ tokens: tokensByPixels(data) })) ?? { tokens: tokensPerImage, emptied: part }
      );
    case 'document':
      return readSource(part, sizeOfFile);
    case 'text':
      return withinEach(part, 'citations', (citation) => withoutOpaque(citation, 'encrypted_index'));
    case 'thinking':
      return withoutOpaque(part, 'signature');
    case 'compaction':
      return readAll(part, [withoutEncrypted, (rest) => withoutOpaque(rest, 'signature')]);
    case 'web_search_result':
      return withoutEncrypted(part);
    case 'redacted_thinking':
      return withoutOpaque(part, 'data');
    default:
      return undefined;
  }
};

const withoutEncrypted: ReadMedia = (part) => withoutOpaque(part, 'encrypted_content');

type SizeOf = (data: string) => Omit<EmptiedPart, 'emptied'>;

function readSource(part: Part, sizeOf: SizeOf): EmptiedPart | undefined {
  const { source } = part;
  if (!isObject(source) || source.type !== 'base64' || !isBase64(source.data)) return undefined;
  return { ...sizeOf(source.data), emptied: { ...part, source: { ...source, data: '' } } };
}

/** With the schema of the output. */
const otherFields = ['output_config', 'output_format'] as const;

type PromptFields = Partial<Record<'system' | 'messages' | 'tools' | (typeof otherFields)[number], unknown>>;

/** The texts of a payload, for the tokenizer, and the tokens of its media. */
export function messagesPrompt(payload: PromptFields): Prompt {
  const { system, messages, tools } = payload;
  const media: MediaSum = { tokens: tokensOfMessages({ messages }, 'messages'), texts: [] };
  const shown = withoutMedia([system, messages], (part) => readDocument(part) ?? readMedia(part), media);
  const others = [...toolTexts(tools), ...fieldTexts(payload, otherFields)];
  return { texts: [...textsIn(shown, textFields), ...others, ...media.texts], tokens: media.tokens };
}

const textFields = new Set(['content', 'text', 'input', 'thinking', 'title', 'context']);

/** A document of text, as parts that have its text where a message has it. */
const readDocument: ReadMedia = ({ type, source, title, context }) => {
  if (type !== 'document' || !isObject(source)) return undefined;
  const { type: kind, data, content } = source;
  if (kind === 'text') return { tokens: 0, emptied: { title, context, text: data } };
  return kind === 'content' ? { tokens: 0, emptied: { title, context, content } } : undefined;
};
