import { isOneLetterOff } from '../../shared/endpoints/fields/unknown-fields.ts';

/** Prefixes that clients add to a path, or omit. */
const prefixes = new Set(['v1', 'api', 'openai']);

type Target = { method: string; path: string };

/** The routes of the service: the methods at a path, and the patterns of all paths. */
type Routes = { methodsAt: (path: string) => readonly string[]; patterns: readonly string[] };

/**
 * Suggests the route that an unknown path probably means: `/v1` is missing or superfluous, there is an extra slash, letters are upper case,
 * or one letter is wrong (contract.md#b12-hints-in-a-404).
 */
export function suggestRoute({ method, path }: Target, { methodsAt, patterns }: Routes): Target | undefined {
  const rest = pathWithoutPrefixes(path);
  const known = [rest, rest.toLowerCase()].flatMap((each) => [`/v1/${each}`, `/${each}`]);
  const corrected = known.flatMap((each) => correctedPaths(each.split('/'), patterns));
  const candidates = [...known, ...corrected];
  for (const candidate of candidates) {
    const methods = methodsAt(candidate).filter((each) => each !== 'HEAD');
    const [first] = methods;
    if (first !== undefined) return { method: methods.includes(method) ? method : first, path: candidate };
  }
  return undefined;
}

/** The path with one segment corrected to that of a pattern, for each pattern from which no more than one letter differs. */
function correctedPaths(segments: readonly string[], patterns: readonly string[]): string[] {
  return patterns.flatMap((pattern) => {
    const wanted = pattern.split('/');
    const fits = (segment: string, index: number) => isParameter(wanted[index]) || segment === wanted[index];
    const wrong = segments.findIndex((segment, index) => !fits(segment, index));
    const [sent = '', meant = ''] = [segments[wrong], wanted[wrong]];
    if (segments.length !== wanted.length || !isOneLetterOff(sent, meant)) return [];
    const corrected = segments.with(wrong, meant);
    return corrected.every(fits) ? [corrected.join('/')] : [];
  });
}

function isParameter(segment: string | undefined): boolean {
  return segment !== undefined && /[:*]/.test(segment);
}

/**
 * Routes of OpenAI's API, some of which this service does not have, by the segment after `/v1/` (platform.openai.com/docs/api-reference).
 */
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
