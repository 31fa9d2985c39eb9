import { hash } from 'node:crypto';
import { z } from 'zod';
import { defineEndpoint } from '../endpoint.ts';
import { pieces } from '../model/text.ts';
import { openAiErrors, openAiForm } from '../openai-form.ts';

const rerankSchema = z.looseObject({
  model: z.string().min(1),
  query: z.string(),
  documents: z.array(z.union([z.string(), z.looseObject({ text: z.string() })])).min(1),
  /** 0 means all, as in vLLM. */
  top_n: z.int().min(0).nullish(),
  return_documents: z.boolean().nullish(),
});

type Ranking = Pick<z.infer<typeof rerankSchema>, 'query' | 'documents'>;

const form = openAiForm({
  textOpenings: ['"text":"', '"model":"'],
  wholeUpToText: '{"results":[{"index":0,"document":{"text":"',
  eventUpToText: 'data: {"results":[{"index":0,"document":{"text":"',
  eventAfterText: '"}}]}\n\n',
  emptyEvent: 'data: {"results":[]}\n\n',
});

export const rerank = defineEndpoint({
  path: '/v1/rerank',
  streams: false,
  errors: openAiErrors,
  schema: rerankSchema,
  answer(asked, { id, withUsage, ignoresLimit }) {
    const promptTokens = rerankTokensOf(asked);
    const withDocuments = asked.return_documents !== false;
    const whole = () => {
      const results = rank(asked, ignoresLimit ? 0 : (asked.top_n ?? 0)).map(({ index, text, score }) => ({
        index,
        ...(withDocuments && { document: { text } }),
        relevance_score: score,
      }));
      const usage = withUsage && { usage: { total_tokens: promptTokens } };
      return JSON.stringify({ id: `rerank-${id}`, model: asked.model, ...usage, results });
    };
    return { promptTokens, completionTokens: 0, whole, events: () => [], form };
  },
});

/** How relevant a document is to a query, from 0 to 1: the same for the same texts. */
export function relevanceOf(query: string, document: string): number {
  return Number.parseInt(hash('sha256', JSON.stringify([query, document])).slice(0, 8), 16) / 0xffff_ffff;
}

/** The tokens that reranking reads: the model reads the query with each of the documents. */
export function rerankTokensOf({ query, documents }: Ranking): number {
  const queryTokens = pieces(query).length;
  return documents.reduce((sum, document) => sum + queryTokens + pieces(textOf(document)).length, 0);
}

/** The documents, the most relevant first. `top` is how many; 0 is all. */
function rank({ query, documents }: Ranking, top: number) {
  const scored = documents.map((document, index) => {
    const text = textOf(document);
    return { index, text, score: relevanceOf(query, text) };
  });
  return scored.sort((one, other) => other.score - one.score).slice(0, top === 0 ? scored.length : top);
}

function textOf(document: Ranking['documents'][number]): string {
  return typeof document === 'string' ? document : document.text;
}
