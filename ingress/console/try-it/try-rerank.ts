import { documentsOf, pythonOf, type Step, type TriedEndpoint } from './tried-endpoint.ts';

/** The body of `POST /v1/rerank`. */
type RerankRequest = { model: string; query: string; documents: string[] };

/** Model servers differ in the rest of an answer. */
type RerankResults = {
  results: { index: number; relevance_score: number }[];
  usage?: { total_tokens?: number };
  meta?: { tokens?: { input_tokens?: number } };
};

export const rerank: TriedEndpoint<RerankRequest> = {
  label: 'Rerank',
  path: '/v1/rerank',
  takes: 'documents',
  isGenerating: false,
  isStreamed: false,

  requestOf: (draft) => ({ model: draft.model, query: draft.input, documents: documentsOf(draft) }),

  read(data): Step {
    const { results, usage, meta } = JSON.parse(data) as RerankResults; // the model server's answer
    const total = usage?.total_tokens ?? meta?.tokens?.input_tokens;
    return {
      text: results.map(({ index, relevance_score: score }) => `Document ${index + 1}: ${score.toFixed(4)}`).join('\n'),
      ...(total !== undefined && { tokens: { total } }),
      isEnd: true,
    };
  },

  node,
  python,
};

function node(request: RerankRequest, baseUrl: string): string {
  return `const response = await fetch(${urlIn(baseUrl)}, {
  method: 'POST',
  headers: { authorization: \`Bearer \${process.env.KEY}\`, 'content-type': 'application/json' },
  body: JSON.stringify(${JSON.stringify(request, null, 2)}),
});
const { results } = await response.json();
for (const { index, relevance_score } of results) console.log(index, relevance_score);`;
}

function python(request: RerankRequest, baseUrl: string): string {
  return `import json
import os
import urllib.request

request = urllib.request.Request(
    ${urlIn(baseUrl)},
    data=json.dumps(${pythonOf(request)}).encode(),
    headers={"authorization": "Bearer " + os.environ["KEY"], "content-type": "application/json"},
)
for result in json.load(urllib.request.urlopen(request))["results"]:
    print(result["index"], result["relevance_score"])`;
}

/** The URL of the endpoint as a string of both languages. */
function urlIn(baseUrl: string): string {
  return JSON.stringify(`${baseUrl}/v1/rerank`);
}
