import { placeholders } from '../../../ingress/documentation/documentation.ts';
import { fillPlaceholders } from '../../../ingress/documentation/fill-placeholders.ts';
import type { Stack } from '../../stack/stack.ts';

/** A page of this stack as its reader sees it. `model` is the model in its examples. */
export function asRead(markdown: string, { baseUrl, identity }: Stack, model = 'small-chat'): string {
  const links = {
    baseUrl,
    authUrl: identity.issuer,
    consoleUrl: `${baseUrl}/console`,
    topupUrl: `${baseUrl}/console#top-up`,
    docsUrl: `${baseUrl}/docs`,
  };
  return fillPlaceholders(markdown, placeholders(links, model));
}
