import {
  limitOf,
  type Message,
  pythonArguments,
  type Step,
  samplingOf,
  type TriedEndpoint,
  written,
} from './tried-endpoint.ts';

/** The body of `POST /v1/messages`. */
type MessageRequest = {
  model: string;
  max_tokens: number;
  system?: string;
  messages: Message[];
  temperature?: number;
  top_p?: number;
  stream: true;
};

type Usage = { input_tokens?: number | null; output_tokens?: number | null };
type Event = {
  type: string;
  message?: { usage?: Usage };
  delta?: { type?: string; text?: string; stop_reason?: string | null };
  usage?: Usage;
  error?: { code?: string; message?: string };
};

const maxTokensDefault = 1_000;

export const messages: TriedEndpoint<MessageRequest> = {
  label: 'Messages',
  path: '/v1/messages',
  takes: 'messages',
  isGenerating: true,
  maxTokensDefault,
  isStreamed: true,

  requestOf(draft) {
    const all = written(draft.messages);
    const system = all.filter(({ role }) => role === 'system').map(({ content }) => content);
    return {
      model: draft.model,
      max_tokens: limitOf(draft) ?? maxTokensDefault,
      ...(system.length > 0 && { system: system.join('\n\n') }),
      messages: all.filter(({ role }) => role !== 'system'),
      ...samplingOf(draft),
      stream: true,
    };
  },

  read(data): Step {
    const event = JSON.parse(data) as Event; // the service's own event
    switch (event.type) {
      case 'error':
        return { failure: event.error ?? {} };
      case 'content_block_delta':
        return { text: event.delta?.text ?? '' };
      case 'message_start':
        return { tokens: tokensOf(event.message?.usage) };
      case 'message_delta':
        return { tokens: tokensOf(event.usage), finishReason: event.delta?.stop_reason ?? '' };
      case 'message_stop':
        return { isEnd: true };
      default:
        return {};
    }
  },

  node,
  python,
};

function tokensOf({ input_tokens: prompt, output_tokens: completion }: Usage = {}) {
  return {
    ...(typeof prompt === 'number' && { prompt }),
    ...(typeof completion === 'number' && { completion }),
  };
}

function node({ stream: _, ...request }: MessageRequest, baseUrl: string): string {
  return `import Anthropic from '@anthropic-ai/sdk';

const client = new Anthropic({ baseURL: ${JSON.stringify(baseUrl)}, apiKey: process.env.KEY });
const stream = client.messages.stream(${JSON.stringify(request, null, 2)});
stream.on('text', (text) => process.stdout.write(text));
await stream.finalMessage();`;
}

function python({ stream: _, ...request }: MessageRequest, baseUrl: string): string {
  return `import os
from anthropic import Anthropic

client = Anthropic(base_url=${JSON.stringify(baseUrl)}, api_key=os.environ["KEY"])
with client.messages.stream(
${pythonArguments(request)}
) as stream:
    for text in stream.text_stream:
        print(text, end="", flush=True)`;
}
