import {
  limitOf,
  type Message,
  openAiNode,
  openAiPython,
  pythonArguments,
  type Step,
  samplingOf,
  type TriedEndpoint,
  written,
} from './tried-endpoint.ts';

/** The body of `POST /v1/chat/completions`. */
type ChatRequest = {
  model: string;
  messages: Message[];
  max_tokens?: number;
  temperature?: number;
  top_p?: number;
  stream: true;
  stream_options: { include_usage: true };
};

type Choice = { delta?: { content?: string | null } };

export const chat: TriedEndpoint<ChatRequest> = {
  label: 'Chat completions',
  path: '/v1/chat/completions',
  takes: 'messages',
  isGenerating: true,
  isStreamed: true,

  requestOf(draft) {
    const limit = limitOf(draft);
    return {
      model: draft.model,
      messages: written(draft.messages),
      ...(limit !== undefined && { max_tokens: limit }),
      ...samplingOf(draft),
      stream: true,
      stream_options: { include_usage: true },
    };
  },

  read: (data) => readChunk<Choice>(data, (choice) => choice.delta?.content),

  node,
  python,
};

function node(request: ChatRequest, baseUrl: string): string {
  return openAiNode(
    baseUrl,
    `const stream = await client.chat.completions.create(${JSON.stringify(request, null, 2)});
for await (const chunk of stream) {
  process.stdout.write(chunk.choices[0]?.delta.content ?? '');
}`,
  );
}

function python(request: ChatRequest, baseUrl: string): string {
  return openAiPython(
    baseUrl,
    `stream = client.chat.completions.create(
${pythonArguments(request)}
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)`,
  );
}

type Chunk<Choice> = {
  choices?: (Choice & { finish_reason?: string | null })[];
  usage?: { prompt_tokens: number; completion_tokens: number; total_tokens: number } | null;
  error?: { code?: string; message?: string };
};

/** Reads one frame of a stream of `/v1/chat/completions` or `/v1/completions`, whose choices differ in where their text is. */
export function readChunk<Choice>(data: string, textOf: (choice: Choice) => string | null | undefined): Step {
  if (data === '[DONE]') return { isEnd: true };
  const { choices: [choice] = [], usage, error } = JSON.parse(data) as Chunk<Choice>; // the service's own frame
  if (error !== undefined) return { failure: error };
  return {
    text: (choice && textOf(choice)) ?? '',
    ...(choice?.finish_reason && { finishReason: choice.finish_reason }),
    ...(usage && {
      tokens: { prompt: usage.prompt_tokens, completion: usage.completion_tokens, total: usage.total_tokens },
    }),
  };
}
