import { readFileSync } from 'node:fs';
import { placeholders } from '../../../ingress/documentation/documentation.ts';
import { exampleModels } from '../../../ingress/documentation/example-model.ts';
import { fillPlaceholders } from '../../../ingress/documentation/fill-placeholders.ts';
import { parsePlanFile } from '../../../shared/plan-file/plan-file.ts';
import type { Stack } from '../../stack/stack.ts';

/** A page of this stack as its reader sees it. `chat` is the model for chat in its examples. */
export function asRead(markdown: string, { baseUrl, identity, planFile }: Stack, chat?: string): string {
  const parsed = parsePlanFile(readFileSync(planFile, 'utf8'));
  if ('issues' in parsed) throw new Error('the plan file of the stack is not valid');
  const models = exampleModels(parsed.planFile);
  const links = {
    baseUrl,
    authUrl: identity.issuer,
    consoleUrl: `${baseUrl}/console`,
    topupUrl: `${baseUrl}/console#top-up`,
    docsUrl: `${baseUrl}/docs`,
  };
  return fillPlaceholders(markdown, placeholders(links, chat === undefined ? models : { ...models, chat }));
}
