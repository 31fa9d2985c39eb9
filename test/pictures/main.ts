import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { type Browser, chromium } from 'playwright-core';
import { createSeed } from '../../shared/limits/seed.ts';
import { createLog } from '../../shared/process/log.ts';
import { openStore } from '../../shared/process/open-store.ts';
import { connectForRequests } from '../../shared/redis/connections.ts';
import { freePort } from '../stack/free-port.ts';
import { createSeeding } from '../stack/seed/seed-account.ts';
import { seedAccounts } from '../stack/seed/seed-accounts.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { startedAliases, startedModels, startedPrices } from '../stack/started-models.ts';
import { openConsolePage } from '../support/browser/console-page.ts';
import { findChromium, noChromium } from '../support/browser/find-chromium.ts';

const usage = `Usage: npm run pictures [-- --all <folder>]
Takes the pictures of the README from a stack with seeded data: .github/console-light.png and .github/console-dark.png.
--all  takes each page of the console into this folder instead, at 1280 and 390 pixels, light and dark`;

type Scheme = 'light' | 'dark';
type Picture = { account: string; page: string; file: string; width: number; height: number; scheme: Scheme };

const schemes: readonly Scheme[] = ['light', 'dark'];
/** What the page loads after it is shown. */
const settleMs = 2_500;

const ownPages = ['overview', 'requests', 'batches', 'usage', 'keys', 'webhooks', 'try-it'];
const operatorPages = ['service', 'fleet', 'find', 'accounts', 'all-usage', 'audit', 'top-up-codes', 'settings'];

const { values } = parseArgs({ options: { all: { type: 'string' }, help: { type: 'boolean', default: false } } });
if (values.help) console.log(usage);
else await takePictures(values.all === undefined ? readmePictures() : await allPictures(resolve(values.all)));
process.exit();

function readmePictures(): Picture[] {
  return schemes.map((scheme) => {
    const file = join(import.meta.dirname, `../../.github/console-${scheme}.png`);
    return { account: 'ada', page: 'overview', file, width: 1280, height: 800, scheme };
  });
}

async function allPictures(folder: string): Promise<Picture[]> {
  await mkdir(folder, { recursive: true });
  const pages = [
    ...ownPages.map((page) => ({ account: 'ada', page })),
    ...operatorPages.map((page) => ({ account: 'olga', page })),
  ];
  return schemes.flatMap((scheme) =>
    [1280, 390].flatMap((width) =>
      pages.map(({ account, page }) => {
        const file = join(folder, `${page}-${width}-${scheme}.png`);
        return { account, page, file, width, height: 0, scheme };
      }),
    ),
  );
}

async function takePictures(pictures: readonly Picture[]): Promise<void> {
  const program = await findChromium();
  if (program === undefined) throw new Error(noChromium);
  const directory = await mkdtemp(join(tmpdir(), 'pictures-'));
  await using parts = new AsyncDisposableStack();
  parts.defer(() => rm(directory, { recursive: true, force: true }));
  const stack = parts.use(
    await startStack({
      ...{ directory, demo: true, webhooks: true, ports: { ingress: await freePort() } },
      ...{ models: startedModels, aliases: startedAliases, prices: startedPrices },
      modelServers: { firstTokenMs: 100, tokensPerSecond: 50 },
    }),
  );
  await seed(stack);
  const browser = parts.adopt(await chromium.launch({ executablePath: program, args: ['--no-sandbox'] }), (opened) =>
    opened.close(),
  );
  const groups = Map.groupBy(pictures, ({ account, scheme, width }) => `${account} ${scheme} ${width}`);
  for (const ofGroup of groups.values()) await takeOf({ browser, stack }, ofGroup);
}

/** Pictures of one account, one colour scheme and one width. */
async function takeOf(deps: { browser: Browser; stack: Stack }, pictures: readonly Picture[]): Promise<void> {
  const [first] = pictures;
  if (first === undefined) return;
  const { width, height, scheme: colorScheme } = first;
  const viewport = { width, height: height || 900 };
  await using console = await openConsolePage({ ...deps, colorScheme, viewport: { ...viewport, width: 1280 } });
  const { page } = console;
  await console.signIn(first.account);
  await page.setViewportSize(viewport);
  for (const picture of pictures) {
    await console.goTo(picture.page);
    await page.waitForTimeout(settleMs);
    await page.screenshot({ path: picture.file, fullPage: height === 0 });
    globalThis.console.log(picture.file);
  }
}

async function seed(stack: Stack): Promise<void> {
  const { baseUrl: url, databaseUrl, redisUrl, identity } = stack;
  await using parts = new AsyncDisposableStack();
  const log = createLog({ level: 'warn', format: 'pretty', process: 'pictures', forTerminal: true });
  const store = parts.use(await openStore(databaseUrl, { log }));
  const redis = parts.adopt(connectForRequests(redisUrl, log), (opened) => opened.disconnect());
  const seedAll = createSeeding({
    ...{ url, store, recount: createSeed({ redis, store: store.usage }) },
    tokenOf: (account, admin = false) => identity.token(account, { admin }),
    allowanceOf: () => 10_000_000,
    modelServers: stack.modelServers.map((server) => server.url),
    now: Date.now(),
    print: () => {},
  });
  await seedAll(seedAccounts);
}
