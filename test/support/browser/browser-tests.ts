import type { TestFn } from 'ava';
import { type Browser, chromium } from 'playwright-core';
import { freeFixedPort } from '../../stack/free-port.ts';
import { type Stack, type StackOptions, startStack } from '../../stack/stack.ts';
import { type ConsolePage, type ConsolePageOptions, openConsolePage } from './console-page.ts';
import { findChromium } from './find-chromium.ts';

const program = await findChromium();

/**
 * A stack and a real browser for the tests of one file, ended after them, and the way to declare those that need them: where
 * there is no Chromium one test says aloud that they are skipped, and fails with `CI=true`.
 */
export function openBrowserTests(test: TestFn, options: StackOptions = {}) {
  const parts = new AsyncDisposableStack();
  let stack: Stack;
  let browser: Browser;

  if (program === undefined) {
    test('the tests in a browser are skipped', (t) => {
      t.log('TESTS IN A BROWSER ARE SKIPPED: there is no Chromium on this machine');
      t.not(process.env.CI, 'true');
    });
  } else {
    test.before(async () => {
      stack = parts.use(await startStack({ ...options, ports: { ingress: await freeFixedPort(), ...options.ports } }));
      // Where everything is root's, as in a container, Chromium cannot have its own sandbox.
      browser = await chromium.launch({ executablePath: program, args: ['--no-sandbox'] });
      parts.defer(() => browser.close());
    });
    test.after.always(() => parts.disposeAsync());
  }

  return {
    browserTest: program === undefined ? test.skip : test,
    /** For what takes a part of the stack away. */
    browserTestAlone: program === undefined ? test.serial.skip : test.serial,
    stack: () => stack,
    openConsole: (wishes: ConsolePageOptions = {}): Promise<ConsolePage> =>
      openConsolePage({ browser, stack, ...wishes }),
  };
}
