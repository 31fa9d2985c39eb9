import { curlCode, openAiNode, openAiPython, pythonArguments } from './program-code.ts';
import { limitOf, type Step, samplingOf, type TriedEndpoint } from './tried-endpoint.ts';

/** The body of `POST /v1/completions`. */
export type CompletionRequest = {
  model: string;
  prompt: string;
  max_tokens?: number;
  temperature?: number;
  top_p?: number;
  stream: true;
  stream_options: { include_usage: true };
};

type Chunk = {
  choices?: { text?: string; finish_reason?: string | null }[];
  usage?: { prompt_tokens: number; completion_tokens: number; total_tokens: number } | null;
  error?: { code?: string; message?: string };
};

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

  read(data): Step {
    if (data === '[DONE]') return { isEnd: true };
    const { choices: [choice] = [], usage, error } = JSON.parse(data) as Chunk; // the service's own frame
    if (error !== undefined) return { failure: error };
    return {
      text: choice?.text ?? '',
      ...(choice?.finish_reason && { finishReason: choice.finish_reason }),
      ...(usage && {
        tokens: { prompt: usage.prompt_tokens, completion: usage.completion_tokens, total: usage.total_tokens },
      }),
    };
  },

  codeFor: (language, request, baseUrl) => ({ curl, node, python })[language](request, baseUrl),
};

function curl(request: CompletionRequest, baseUrl: string): string {
  return curlCode(`${baseUrl}/v1/completions`, request);
}

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
