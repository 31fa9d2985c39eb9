import type { Page } from 'playwright-core';

/** What the console requests at the authorization endpoint of the issuer from now on: parameters that differ by provider. */
export function recordSignIns(page: Page, issuer: string) {
  const asked: Record<'scope' | 'prompt' | 'resource' | 'audience', string | undefined>[] = [];
  page.on('request', (request) => {
    const { searchParams } = new URL(request.url());
    if (!request.url().startsWith(issuer) || !searchParams.has('code_challenge')) return;
    const { scope, prompt, resource, audience } = Object.fromEntries(searchParams);
    asked.push({ scope, prompt, resource, audience });
  });
  return asked;
}
