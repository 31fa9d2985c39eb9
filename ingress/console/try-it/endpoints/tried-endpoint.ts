/** What the page has asked for. */
export type Draft = {
  model: string;
  /** For endpoints with a conversation. */
  messages: readonly Message[];
  /** For the others. */
  input: string;
  /** As typed; if empty, the default of the endpoint. */
  maxTokens: string;
};

export type Message = { role: 'system' | 'user' | 'assistant'; content: string };

export type Tokens = { prompt?: number; completion?: number; total?: number };

/** What came with an event, or with a whole answer. */
export type Step = {
  /** More text of the answer. */
  text?: string;
  tokens?: Tokens;
  finishReason?: string;
  /** Whether the answer is complete. */
  isEnd?: boolean;
  /** The answer broke off. */
  failure?: { code?: string; message?: string };
};

export const languages = { curl: 'curl', node: 'Node.js', python: 'Python' } as const;
export type Language = keyof typeof languages;

/** An endpoint that the page can call. A request is the JSON of its body. */
export interface TriedEndpoint<Request extends object = object> {
  readonly label: string;
  readonly path: `/v1/${string}`;
  /** The fields of its draft: a conversation and an output limit, or one text. */
  readonly takes: 'messages' | 'input';
  /** What stands in for an empty output limit. */
  readonly maxTokensDefault?: number;
  /** The request of a draft, without its empty messages. */
  requestOf(draft: Draft): Request;
  /** Whether the answer comes as events. */
  readonly isStreamed: boolean;
  /** Reads the data of an event, or a whole answer. */
  read(data: string): Step;
  /** The same request as program code, which reads the key from the environment variable `KEY`. */
  codeFor(language: Language, request: Request, baseUrl: string): string;
}

export function written(messages: readonly Message[]): Message[] {
  return messages.filter(({ content }) => content.trim() !== '');
}

/** The output limit of a draft, as a number or not at all. */
export function limitOf({ maxTokens }: Draft): number | undefined {
  return maxTokens.trim() === '' ? undefined : Number(maxTokens);
}
