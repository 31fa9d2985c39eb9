import type { ExecutionContext } from 'ava';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import type { Stack } from '../../stack/stack.ts';
import { watchPage } from './watch-page.ts';

export type ConsolePageOptions = Pick<BrowserContextOptions, 'colorScheme' | 'viewport'>;

/** The console in its own browser context, watched from its first request on. */
export interface ConsolePage extends AsyncDisposable {
  page: Page;
  url: string;
  /** Goes to a page of the console by its fragment. */
  goTo(fragment: string): Promise<void>;
  /** Signs in: from the button of the console to its return, through the pages of the identity provider. */
  signIn(account: string): Promise<void>;
  /** Requires that no unexpected failure occurred, and that no key or token was left anywhere. */
  requireClean(t: ExecutionContext): Promise<void>;
  /** From now on responses with this status, and calls without a response, are expected. */
  expectFailures(): void;
}

/** Allows many concurrent pages on a machine with few processors. */
const withinMs = 120_000;

/** Another provider than that of the stack: the origins that a browser meets there, and how a person fills in its pages. */
export type OtherProvider = { origins: readonly string[]; fillIn(page: Page, account: string): Promise<void> };

type Deps = ConsolePageOptions & { browser: Browser; stack: Stack; provider?: OtherProvider };

export async function openConsolePage({ browser, stack, provider, ...wishes }: Deps): Promise<ConsolePage> {
  const { origins, fillIn } = provider ?? { origins: stack.identity.origins, fillIn: fillInName };
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    acceptDownloads: true,
    ...wishes,
  });
  context.setDefaultTimeout(withinMs);
  const page = await context.newPage();
  const url = `${stack.baseUrl}/console`;
  const watch = await watchPage(page, { stack, origins });
  return {
    page,
    url,
    async goTo(fragment) {
      await page.goto(`${url}#${fragment}`);
    },
    async signIn(account) {
      if (!page.url().startsWith(url)) await page.goto(url);
      watch.expectSecrets();
      await page.getByRole('button', { name: 'Sign in' }).click();
      await fillIn(page, account);
      await page.getByRole('button', { name: 'Sign out' }).waitFor();
    },
    requireClean: (t) => watch.requireClean(t),
    expectFailures: watch.expectFailures,
    async [Symbol.asyncDispose]() {
      // The console asks again and again: an answer that a test changes may be on its way, and would fail outside of the test.
      await page.unrouteAll({ behavior: 'ignoreErrors' });
      await context.close();
    },
  };
}

async function fillInName(page: Page, account: string): Promise<void> {
  await page.getByLabel('Name').fill(account);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

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
