import { makeInThread } from '../in-thread.ts';
import { camelCase } from './camel-case.ts';
import type { parsePlanFile } from './plan-file.ts';

export type ParseResult = ReturnType<typeof parsePlanFile>;

/**
 * Does what `parsePlanFile` does, in a thread: the longest text takes half a second. Throws if the thread fails or the signal is aborted.
 */
export async function parseInThread(text: string, signal: AbortSignal): Promise<ParseResult> {
  const url = new URL('./parse-thread.ts', import.meta.url);
  const parsed = await makeInThread<ParseResult>({ url, request: text, signal });
  // What comes from a thread is neither frozen nor without a prototype. The names are in camel case already.
  return 'issues' in parsed ? parsed : { ...parsed, planFile: camelCase(parsed.planFile) };
}
