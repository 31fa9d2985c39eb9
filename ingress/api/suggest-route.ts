/** What clients put in front of a path, or leave out. */
const prefixes = new Set(['v1', 'api', 'openai']);

type Wanted = { method: string; path: string };

/**
 * The route that a path without one probably means: `/v1` is missing or too much, a slash is too much, or letters are capitals.
 * `methodsAt` gives the methods that a path takes.
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

/** OpenAI's routes that this service may lack, by what follows `/v1/` (platform.openai.com/docs/api-reference). */
const openAiRoutes = [
  ...['assistants', 'audio', 'chat', 'chatkit', 'completions', 'containers', 'conversations', 'edits', 'embeddings'],
  ...['engines', 'evals', 'fine-tunes', 'fine_tuning', 'graders', 'images', 'moderations', 'organization', 'projects'],
  ...['realtime', 'responses', 'threads', 'uploads', 'vector_stores', 'videos'],
];

/** Whether OpenAI's API has routes of this kind. */
export function isOpenAiRoute(path: string): boolean {
  return openAiRoutes.includes(pathWithoutPrefixes(path).split('/')[0] ?? '');
}

function pathWithoutPrefixes(path: string): string {
  const parts = path.split('/').filter((part) => part !== '');
  const start = parts.findIndex((part) => !prefixes.has(part.toLowerCase()));
  return (start < 0 ? [] : parts.slice(start)).join('/');
}
