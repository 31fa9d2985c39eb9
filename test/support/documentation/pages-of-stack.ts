import { placeholders } from '../../../ingress/documentation/documentation.ts';
import { fillPlaceholders } from '../../../ingress/documentation/fill-placeholders.ts';
import { freePort } from '../../stack/free-port.ts';
import type { Stack, StackOptions } from '../../stack/stack.ts';

/** Ports for a stack that is reached by the address that it says of itself, as its pages have it. */
export async function fixedPorts(): Promise<NonNullable<StackOptions['ports']>> {
  return {
    ingress: await freePort(),
    identity: await freePort(),
    models: [await freePort(), await freePort(), await freePort()],
    operations: [await freePort(), await freePort()],
  };
}

/** A page of this stack as its reader has it. */
export function asRead(markdown: string, { baseUrl, identity }: Stack): string {
  const links = {
    baseUrl,
    authUrl: identity.issuer,
    consoleUrl: `${baseUrl}/console`,
    topupUrl: `${baseUrl}/console#top-up`,
    docsUrl: `${baseUrl}/docs`,
  };
  return fillPlaceholders(markdown, placeholders(links, 'small-chat'));
}
