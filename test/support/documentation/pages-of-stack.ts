import { readFileSync } from 'node:fs';
import { type ExampleModels, exampleModels } from '../../../ingress/documentation/reference/request-example.ts';
import { fillPlaceholders } from '../../../ingress/documentation/render-markdown.ts';
import { placeholders } from '../../../ingress/pages/documentation-site.ts';
import { parsePlanFile } from '../../../shared/plan-file/plan-file.ts';
import type { Stack } from '../../stack/stack.ts';

/** The models in the examples of this stack. */
export function modelsOfStack({ planFile }: Stack): ExampleModels {
  const parsed = parsePlanFile(readFileSync(planFile, 'utf8'));
  if ('issues' in parsed) throw new Error('the plan file of the stack is not valid');
  return exampleModels(parsed.planFile);
}

/** A page of this stack as its reader sees it. `chat` is the model for chat in its examples. */
export function asRead(markdown: string, stack: Stack, chat?: string): string {
  const { baseUrl, identity } = stack;
  const models = modelsOfStack(stack);
  const links = {
    baseUrl,
    authUrl: identity.issuer,
    consoleUrl: `${baseUrl}/console`,
    topupUrl: `${baseUrl}/console#top-up`,
    docsUrl: `${baseUrl}/docs`,
  };
  return fillPlaceholders(markdown, placeholders(links, chat === undefined ? models : { ...models, chat }));
}
