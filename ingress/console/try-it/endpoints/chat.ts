import { readChunk } from './completion-chunk.ts';
import { curlCode, openAiNode, openAiPython, pythonArguments } from './program-code.ts';
import { limitOf, type Message, samplingOf, type TriedEndpoint, written } from './tried-endpoint.ts';

/** The body of `POST /v1/chat/completions`. */
export type ChatRequest = {
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

  codeFor: (language, request, baseUrl) => ({ curl, node, python })[language](request, baseUrl),
};

function curl(request: ChatRequest, baseUrl: string): string {
  return curlCode(`${baseUrl}/v1/chat/completions`, request);
}

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
