import test, { type ExecutionContext } from 'ava';
import { type Browser, chromium, type Page, type Response } from 'playwright-core';
import { freePort } from '../stack/free-port.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { type ConsolePage, openConsolePage, recordSignIns } from '../support/browser/console-page.ts';
import { findChromium, noChromium } from '../support/browser/find-chromium.ts';
import { createRealm } from '../support/keycloak/create-realm.ts';
import { type Keycloak, KeycloakMissing, provideKeycloak, startKeycloak } from '../support/keycloak/start-keycloak.ts';
import { skipTest } from '../support/skip-test.ts';

const program = await findChromium();
const home =
  program === undefined
    ? new KeycloakMissing(noChromium)
    : await provideKeycloak().catch((error: unknown) => {
        if (error instanceof KeycloakMissing) return error;
        throw error;
      });
const parts = new AsyncDisposableStack();
const tokenLifeS = 10;

let keycloak: Keycloak;
let realm: Awaited<ReturnType<typeof createRealm>>;
let stack: Stack;
let browser: Browser;

if (home instanceof Error) {
  skipTest(test, { title: `the tests with Keycloak itself cannot run: ${home.message}`, reason: home.message });
}

function keycloakTest(title: string, run: (t: ExecutionContext) => Promise<void>): void {
  if (!(home instanceof Error)) test.serial(`Keycloak: ${title}`, run);
}

test.before(async () => {
  if (home instanceof Error) return;
  const port = await freePort();
  const baseUrl = `http://127.0.0.1:${port}`;
  keycloak = parts.use(await startKeycloak(home));
  const people = ['alice', 'bob', 'carol', 'dora', 'erin'];
  const wishes = { baseUrl, consoleUrl: `${baseUrl}/console`, tokenLifeS, people, operators: ['olga'] };
  realm = await createRealm(keycloak, wishes);
  stack = parts.use(await startStack({ ports: { ingress: port }, workers: 0, env: { AUTH_URL: realm.issuer } }));
  browser = await chromium.launch({ executablePath: program ?? '', args: ['--no-sandbox'], timeout: 120_000 });
  parts.defer(() => browser.close());
});

test.after.always(() => parts.disposeAsync());

const openConsole = () =>
  openConsolePage({ browser, stack, provider: { origins: [keycloak.url], fillIn: fillInPassword } });

async function fillInPassword(page: Page, account: string): Promise<void> {
  await page.locator('#username').fill(account);
  await page.locator('#password').fill('password');
  await page.locator('#kc-login').click();
}

const signedIn = (page: Page) => page.getByRole('button', { name: 'Sign out' }).waitFor();
const signedOut = (page: Page) => page.getByRole('button', { name: 'Sign in' }).waitFor();
const isToken = (answer: Response) => answer.url().endsWith('/token');
const nextToken = async (page: Page) =>
  (await (await page.waitForResponse(isToken)).json()) as { access_token: string; refresh_token: string };
const partOf = (token: string, index: number): unknown =>
  JSON.parse(Buffer.from(token.split('.')[index] ?? '', 'base64url').toString());
const headerOf = (token: string) => partOf(token, 0) as { kid: string };
const expiryOf = (token: string) => (partOf(token, 1) as { exp: number }).exp * 1000;

/** The status of the API's answer to the console now. */
async function statusNow(console: ConsolePage): Promise<number> {
  const { page } = console;
  const answer = page.waitForResponse((one) => one.url().endsWith('/v1/keys'));
  await console.goTo('usage');
  await console.goTo('keys');
  return (await answer).status();
}

keycloakTest('a reload and another tab stay signed in without a password, and signing out ends both', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  const asked = recordSignIns(page, keycloak.url);
  await console.goTo('keys');
  await console.signIn('alice');
  t.deepEqual(
    asked.map(({ scope }) => scope),
    ['openid svc:admin'],
    'Keycloak gives a refresh token without offline_access',
  );
  for (let reloads = 0; reloads < 3; reloads++) {
    await page.reload();
    await signedIn(page);
  }
  t.is(page.url(), `${console.url}#keys`);
  const other = await page.context().newPage();
  await other.goto(`${console.url}#usage`);
  await signedIn(other);
  await page.reload();
  await signedIn(page);

  const { refresh_token } = await lastTokens(page);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await signedOut(page);
  await other.getByText('You have signed out in another tab.').waitFor();
  const form = { grant_type: 'refresh_token', client_id: 'console', refresh_token };
  const body = new URLSearchParams(form);
  const renewal = await fetch(`${realm.issuer}/protocol/openid-connect/token`, { method: 'POST', body });
  t.is(renewal.status, 400);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('#password').waitFor();
  await console.requireClean(t);

  /** Those of a further reload. */
  async function lastTokens(page: Page) {
    const tokens = nextToken(page);
    await page.reload();
    await signedIn(page);
    return tokens;
  }
});

keycloakTest('a token is renewed before it expires, also after Keycloak has changed its key', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('usage');
  const first = nextToken(page);
  const second = first.then(async () => ({ ...(await nextToken(page)), atMs: Date.now() }));
  await console.signIn('bob');
  const { access_token } = await first;
  const { kid } = headerOf(access_token);
  const renewal = await second;
  t.true(renewal.atMs < expiryOf(access_token), 'before the first token expires');
  t.is(headerOf(renewal.access_token).kid, kid);
  t.is(await statusNow(console), 200);
  await realm.rotateKey();
  let renewed = await nextToken(page);
  while (headerOf(renewed.access_token).kid === kid) renewed = await nextToken(page); // was on its way
  t.is(await statusNow(console), 200);
  await page.reload();
  await signedIn(page);
  t.is(await statusNow(console), 200);
  await console.requireClean(t);
});

keycloakTest('only who has the role of operators is one', async (t) => {
  for (const [account, count] of [
    ['olga', 0],
    ['carol', 1],
  ] as const) {
    await using console = await openConsole();
    await console.goTo('usage');
    await console.signIn(account);
    await console.goTo('settings');
    const refusal = console.page.getByText('This page is for operators');
    const forOperators = console.page.getByRole('region', { name: 'Processes' });
    await forOperators.or(refusal).first().waitFor();
    t.is(await refusal.count(), count, account);
    await console.requireClean(t);
  }
});

keycloakTest('a session that ended at Keycloak is asked for again, once', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('keys');
  await console.signIn('dora');
  await page.context().clearCookies();
  const asked = recordSignIns(page, keycloak.url);
  await page.reload();
  await signedOut(page);
  t.deepEqual(
    asked.map(({ prompt }) => prompt),
    ['none'],
  );
  t.is(await page.getByRole('alert').count(), 0, 'nothing has failed');
  await console.requireClean(t);
});

keycloakTest('in a realm without the scope svc:admin people sign in and stay signed in', async (t) => {
  await realm.removeOperatorScope();
  await using console = await openConsole();
  const { page } = console;
  const asked = recordSignIns(page, keycloak.url);
  await console.goTo('usage');
  await console.signIn('erin');
  t.deepEqual(
    asked.map(({ scope }) => scope),
    ['openid svc:admin', 'openid'],
  );
  t.is(await statusNow(console), 200);
  await page.reload();
  await signedIn(page);
  await console.requireClean(t);
});
