/** Prefixes that clients add to a path, or omit. */
const prefixes = new Set(['v1', 'api', 'openai']);

type Wanted = { method: string; path: string };

/**
 * Suggests the route that an unknown path probably means: `/v1` is missing or superfluous, there is an extra slash, or letters are upper
 * case (contract.md#b12-hints-in-a-404). `methodsAt` returns the methods of a path.
 */
export function suggestRoute(
  { method, path }: Wanted,
  methodsAt: (path: string) => readonly string[],
): Wanted | undefined {
  const rest = pathWithoutPrefixes(path);
  const candidates = [rest, rest.toLowerCase()].flatMap((each) => [`/v1/${each}`, `/${each}`]);
  for (const candidate of candidates) {
    const methods = methodsAt(candidate).filter((each) => each !== 'HEAD');
    const [first] = methods;
    if (first !== undefined) return { method: methods.includes(method) ? method : first, path: candidate };
  }
  return undefined;
}

/** Routes of OpenAI's API, some of which this service does not have, by the segment after `/v1/` (platform.openai.com/docs/api-reference). */
const openAiRoutes = [
  ...['assistants', 'audio', 'chat', 'chatkit', 'completions', 'containers', 'conversations', 'edits', 'embeddings'],
  ...['engines', 'evals', 'fine-tunes', 'fine_tuning', 'graders', 'images', 'moderations', 'organization', 'projects'],
  ...['realtime', 'responses', 'threads', 'uploads', 'vector_stores', 'videos'],
];

/** Whether OpenAI's API has routes below this path. */
export function isOpenAiRoute(path: string): boolean {
  return openAiRoutes.includes(pathWithoutPrefixes(path).split('/')[0] ?? '');
}

function pathWithoutPrefixes(path: string): string {
  const parts = path.split('/').filter((part) => part !== '');
  const start = parts.findIndex((part) => !prefixes.has(part.toLowerCase()));
  return (start < 0 ? [] : parts.slice(start)).join('/');
}
