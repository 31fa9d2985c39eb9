import MiniSearch from 'minisearch';
import { indexOptions, type SearchEntry } from '../documentation/browser/search-index.ts';
import type { RenderedPage } from '../documentation/render-markdown.ts';

/** The index of all pages as JSON, for `ingress/documentation/browser/search-index.ts`. */
export function buildSearchIndex(pages: readonly (RenderedPage & { name: string })[]): string {
  const index = new MiniSearch(indexOptions);
  index.addAll(searchEntries(pages));
  return JSON.stringify(index);
}

/** How much an entry counts beside others with the same words: readers of the API first, then operators, then developers. */
const weights: readonly { pages: RegExp; weight: number }[] = [
  { pages: /^internals\//, weight: 0.25 },
  { pages: /^(changelog|benchmarks)$/, weight: 0.4 },
  { pages: /^runbooks\//, weight: 0.7 },
  { pages: /^reference(\/|$)/, weight: 0.8 },
];

/** Words that readers type, by the part that they want. Each is a part that exists. */
export const keywords: Readonly<Record<string, string>> = {
  'quick-start#get-a-key': 'key api key token create get',
  'move-from-openai': 'migrate migration switch',
  'use-it-from': 'cursor ide agent',
  limits: 'rate throttling quota 429',
  'limits#the-month': 'budget',
  'errors#rate_limit_exceeded': '429 too many requests',
  'errors#INVALID_KEY': '401 unauthorized',
  'errors#quota_exceeded': '402',
  'errors#SERVICE_UNAVAILABLE': '503',
  'retry-safely': 'idempotency',
  'usage#cost': 'pricing prices price cost billing money',
  'usage#a-file-for-a-spreadsheet': 'csv export excel',
  'find-a-request#what-it-says': 'ttft latency',
  webhooks: 'webhook callback',
  'model-servers': 'gpu lm studio local',
  'model-servers#ollama': 'ollama',
  'model-servers#vllm': 'vllm',
  'sign-in': 'sso oidc saml login',
  'operating#containers': 'docker compose',
  'behind-a-proxy': 'tls https certificate load balancer',
  'accounts#removing-an-account': 'gdpr erase',
  'monitoring#metrics': 'prometheus',
  'observability#traces': 'tracing opentelemetry otel',
  'scaling#how-a-backend-is-chosen': 'fallback failover load balancing',
  'runbooks/first-token-slow': 'ttft latency',
};

/** What the search finds: the beginning of each page, and each part of it that has a heading. */
function searchEntries(pages: readonly (RenderedPage & { name: string })[]): SearchEntry[] {
  const wordsFor = (id: string) => keywords[id] ?? '';
  return pages.flatMap(({ name, title, content, sections }) => {
    const weight = weights.find((one) => one.pages.test(name))?.weight ?? 1;
    const page = name.startsWith('reference/') ? `API reference: ${title}` : title;
    return [
      { id: name, page, title: page, text: content, weight: weight * 1.2, keywords: wordsFor(name) },
      ...sections.map(({ id: part, text, content: own }) => {
        const id = `${name}#${part}`;
        return { id, page, title: text, text: own, weight, keywords: wordsFor(id) };
      }),
    ];
  });
}
