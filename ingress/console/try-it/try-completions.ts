import {
  limitOf,
  openAiNode,
  openAiPython,
  pythonArguments,
  samplingOf,
  type TriedEndpoint,
} from './tried-endpoint.ts';
import { readChunk } from './try-chat.ts';

/** The body of `POST /v1/completions`. */
type CompletionRequest = {
  model: string;
  prompt: string;
  max_tokens?: number;
  temperature?: number;
  top_p?: number;
  stream: true;
  stream_options: { include_usage: true };
};

type Choice = { text?: string };

export const completions: TriedEndpoint<CompletionRequest> = {
  label: 'Completions',
  path: '/v1/completions',
  takes: 'input',
  isGenerating: true,
  isStreamed: true,

  requestOf(draft) {
    const limit = limitOf(draft);
    return {
      model: draft.model,
      prompt: draft.input,
      ...(limit !== undefined && { max_tokens: limit }),
      ...samplingOf(draft),
      stream: true,
      stream_options: { include_usage: true },
    };
  },

  read: (data) => readChunk<Choice>(data, (choice) => choice.text),

  node,
  python,
};

function node(request: CompletionRequest, baseUrl: string): string {
  return openAiNode(
    baseUrl,
    `const stream = await client.completions.create(${JSON.stringify(request, null, 2)});
for await (const chunk of stream) {
  process.stdout.write(chunk.choices[0]?.text ?? '');
}`,
  );
}

function python(request: CompletionRequest, baseUrl: string): string {
  return openAiPython(
    baseUrl,
    `stream = client.completions.create(
${pythonArguments(request)}
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].text or "", end="", flush=True)`,
  );
}
