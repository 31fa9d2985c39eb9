import type { Account } from './open-account.ts';

type Wishes = { model?: string; tokens?: number; question?: string };

/** One whole answer of each endpoint, requested with the endpoint's official package. */
export const sdkCalls = {
  completions: ({ openai }: Account, { model = 'everything', tokens = 20, question = 'Hello' }: Wishes = {}) =>
    openai.completions.create({ model, prompt: question, max_tokens: tokens }),
  embeddings: ({ openai }: Account, { model = 'everything', tokens = 1 }: Wishes = {}) =>
    openai.embeddings.create({ model, input: Array(tokens).fill(7) }),
  responses: ({ openai }: Account, { model = 'everything', tokens = 20, question = 'Hello' }: Wishes = {}) =>
    openai.responses.create({ model, input: question, max_output_tokens: tokens }),
  messages: ({ anthropic }: Account, { model = 'everything', tokens = 20, question = 'Hello' }: Wishes = {}) =>
    anthropic.messages.create({ model, max_tokens: tokens, messages: [{ role: 'user', content: question }] }),
} as const;

export type EndpointName = keyof typeof sdkCalls;
export const endpointNames = Object.keys(sdkCalls) as EndpointName[]; // these are all keys

/** One stream of each endpoint that has streams, requested with the endpoint's official package. */
export const sdkStreams = {
  completions: ({ openai }: Account, model: string, question: string) =>
    openai.completions.create({ model, prompt: question, stream: true }),
  responses: ({ openai }: Account, model: string, question: string) =>
    openai.responses.create({ model, input: question, stream: true }),
  messages: ({ anthropic }: Account, model: string, question: string) =>
    anthropic.messages.create({
      ...{ model, max_tokens: 4_096, stream: true as const },
      messages: [{ role: 'user', content: question }],
    }),
} as const;

export type StreamName = keyof typeof sdkStreams;
export const streamNames = Object.keys(sdkStreams) as StreamName[]; // these are all keys

/** What the model wrote in an event of any of these streams. */
export function textOfEvent(event: object): string {
  const { choices, delta } = event as { choices?: { text: string }[]; delta?: string | { text?: string } }; // one of the three forms
  if (choices !== undefined) return choices[0]?.text ?? '';
  return (typeof delta === 'string' ? delta : delta?.text) ?? '';
}
