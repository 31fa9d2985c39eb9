import { openAiNode, openAiPython, pythonArguments, type Step, type TriedEndpoint } from './tried-endpoint.ts';

/** The body of `POST /v1/embeddings`. */
type EmbeddingRequest = { model: string; input: string };

type EmbeddingList = {
  data: { embedding: number[] }[];
  usage?: { prompt_tokens: number; total_tokens: number };
};

const shownMax = 8;

export const embeddings: TriedEndpoint<EmbeddingRequest> = {
  label: 'Embeddings',
  path: '/v1/embeddings',
  takes: 'input',
  isGenerating: false,
  isStreamed: false,

  requestOf: ({ model, input }) => ({ model, input }),

  read(data): Step {
    const { data: list, usage } = JSON.parse(data) as EmbeddingList; // the service's own answer
    return {
      text: list.map(({ embedding }) => vectorText(embedding)).join('\n'),
      ...(usage && { tokens: { prompt: usage.prompt_tokens, total: usage.total_tokens } }),
      isEnd: true,
    };
  },

  node,
  python,
};

/** The length of a vector, and its first numbers. */
function vectorText(vector: readonly number[]): string {
  const first = vector.slice(0, shownMax).map((value) => value.toFixed(4));
  return `Vector of ${vector.length} numbers: ${first.join(', ')}${vector.length > shownMax ? ', …' : ''}`;
}

function node(request: EmbeddingRequest, baseUrl: string): string {
  return openAiNode(
    baseUrl,
    `const answer = await client.embeddings.create(${JSON.stringify(request, null, 2)});
for (const { embedding } of answer.data) console.log(embedding.length, embedding.slice(0, ${shownMax}));`,
  );
}

function python(request: EmbeddingRequest, baseUrl: string): string {
  return openAiPython(
    baseUrl,
    `answer = client.embeddings.create(
${pythonArguments(request)}
)
for item in answer.data:
    print(len(item.embedding), item.embedding[:${shownMax}])`,
  );
}
