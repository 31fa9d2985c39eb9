import type { TestFn } from 'ava';
import { type Browser, chromium } from 'playwright-core';
import { openSharedStack } from '../shared-stack.ts';
import { skipTest } from '../skip-test.ts';
import { type ConsolePage, type ConsolePageOptions, openConsolePage } from './console-page.ts';
import { findChromium, noChromium } from './find-chromium.ts';

const program = await findChromium();

/** The browser of this process, kept while a file uses it. Each page has its own context in it. */
let shared: { launched: Promise<Browser>; users: number } | undefined;

type StackOptions = Parameters<typeof openSharedStack>[1];

/**
 * A stack and a real browser for the tests of one file, shared by the files of its process, and functions to declare those tests. Without
 * Chromium they are skipped as `skipTest` says.
 */
export function openBrowserTests(test: TestFn, options: StackOptions = {}) {
  if (program === undefined) {
    skipTest(test, { title: 'the tests in a browser', reason: noChromium });
    const none = () => {
      throw new Error(noChromium);
    };
    return { browserTest: test.skip, browserTestAlone: test.serial.skip, stack: none, openConsole: none };
  }
  const { stack } = openSharedStack(test, { ...options, isAtBaseUrl: true });
  let browser: Browser;
  test.before(async () => {
    // As root, for example in a container, Chromium cannot use its own sandbox.
    shared ??= {
      launched: chromium.launch({ executablePath: program, args: ['--no-sandbox'], timeout: 120_000 }),
      users: 0,
    };
    shared.users++;
    browser = await shared.launched;
  });
  test.after.always(async () => {
    if (shared === undefined || --shared.users > 0) return;
    const { launched } = shared;
    shared = undefined;
    await (await launched).close();
  });
  return {
    browserTest: test,
    /** For tests that stop a part of the stack. */
    browserTestAlone: test.serial,
    stack,
    openConsole: (wishes: ConsolePageOptions = {}): Promise<ConsolePage> =>
      openConsolePage({ browser, stack: stack(), ...wishes }),
  };
}
