import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import test from 'ava';
import type { Page } from 'playwright-core';
import { startedModels } from '../stack/started-models.ts';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { findPython, noPython, openExampleFolder } from '../support/documentation/run-examples.ts';
import { createFurtherKeyClient } from '../support/further-key-client.ts';
import { createKeyClient } from '../support/key-client.ts';
import { skipTest } from '../support/skip-test.ts';

const python = await findPython();
if (python === undefined) skipTest(test, { title: 'the Python code that is shown', reason: noPython });

const { browserTest, browserTestAlone, stack, openConsole } = openBrowserTests(test, {
  modelServers: { firstTokenMs: 50, tokensPerSecond: 12 },
  models: startedModels,
});

const message = (page: Page) => page.getByRole('textbox', { name: 'Message', exact: true });

async function ask(page: Page, text: string): Promise<void> {
  await message(page).fill(text);
  await message(page).press('Enter');
}

/** Shows the request as a program, and returns its text. */
async function programOf(page: Page, language: string): Promise<string> {
  await page.getByRole('button', { name: 'Show the code' }).click();
  await page.getByRole('dialog').getByLabel(language, { exact: true }).check();
  const code = await page.locator('dialog pre code').innerText();
  await page.getByRole('button', { name: 'Close' }).click();
  return code;
}

browserTest(
  'a person who is signed in has a conversation with nothing to paste, and the key of the page is revoked on leaving',
  async (t) => {
    await using console = await openConsole();
    const { page } = console;
    const calls: string[] = [];
    page.on('request', (request) => {
      const { pathname, search } = new URL(request.url());
      if (/\/keys\/(console|key_)/.test(pathname)) calls.push(`${request.method()} ${pathname}${search}`);
    });
    await console.goTo('try-it');
    await console.signIn('trier');
    await page.getByLabel('System text').fill('Be brief.');
    await ask(page, 'Count to five, slowly.');
    const answer = page.locator('.answer:not(.waiting)');
    await page.getByText('Streaming …').waitFor();
    const part = await answer.innerText();
    await page.getByText('The answer is complete.').waitFor();
    const whole = await answer.innerText();
    t.true(whole.includes('Count to five, slowly.'), whole);
    t.true(whole.startsWith(part) && part.length < whole.length, 'it appeared in parts');
    const figures = await page.locator('.timing').innerText();
    t.regex(figures, /First token\n+[\d,.]+ m?s\n+Total\n+[\d.]+ s\n+Tokens\/s\n+[\d.]+\n+Tokens\n+\d+ \+ \d+\n/);
    t.regex(figures, /Request\n+req_[0-9A-Z]{5}…[0-9A-Z]{5}/);
    t.is(await message(page).inputValue(), '', 'ready for the next message');

    await message(page).fill('one');
    await message(page).press('Shift+Enter');
    t.is(await message(page).inputValue(), 'one\n');
    await page.getByLabel('Compare with').selectOption('medium-chat');
    await ask(page, 'And to ten?');
    await page.getByText('The answers are complete.').waitFor();
    t.is(await answer.count(), 3);
    const code = await programOf(page, 'curl');
    t.regex(code, /Be brief[\s\S]*Count to five[\s\S]*And to ten/);

    const revoking = Promise.withResolvers<void>();
    await page.route('**/v1/keys/key_*', async (route) => {
      await revoking.promise;
      await route.continue();
    });
    await page.getByRole('link', { name: 'Keys', exact: true }).click();
    await page.getByText('Loading your keys …').waitFor();
    t.is(await page.getByText('used by Try it').count(), 0, 'keys are not read before this one is revoked');
    revoking.resolve();
    await page.getByText('was used by Try it').waitFor();
    t.deepEqual(
      calls.map((call) => call.replace(/key_\w+/, 'key')),
      ['POST /v1/keys/console', 'DELETE /v1/keys/key?end_requests=false'],
    );
    await page.getByRole('link', { name: 'Try it' }).click();
    await answer.nth(2).waitFor();
    t.is(await answer.count(), 3, 'the conversation is kept');
    await page.getByRole('button', { name: 'Clear' }).click();
    await page.getByText('No answer yet.').waitFor();
    await console.requireClean(t);
  },
);

browserTest(
  'a key that another tab has replaced is replaced once, and sign-out and closing the tab revoke it',
  async (t) => {
    const user = createFurtherKeyClient(createKeyClient(stack()), 'twice');
    const consoleKeys = async () => (await user.list()).filter(({ purpose }) => purpose === 'console');
    await using console = await openConsole();
    const { page } = console;
    await console.goTo('try-it');
    await console.signIn('twice');
    await ask(page, 'One');
    await page.getByText('The answer is complete.').waitFor();
    const [first] = await consoleKeys();
    await user.revoke(first?.id ?? ''); // as another tab does with a key of its own
    console.expectFailures();
    await ask(page, 'Two');
    await page.locator('.turns > li').nth(1).getByText('Finish').waitFor();
    const [second] = (await consoleKeys()).filter(({ state }) => state === 'active');
    t.truthy(second);
    await page.reload(); // no different from closing it
    await page.getByRole('heading', { name: 'Try it' }).waitFor();
    while ((await consoleKeys()).some(({ state }) => state === 'active')) await page.waitForTimeout(50);

    await ask(page, 'Three');
    await page.getByText('The answer is complete.').waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('button', { name: 'Sign in' }).waitFor();
    while ((await consoleKeys()).some(({ state }) => state === 'active')) await page.waitForTimeout(50);
    t.pass();
  },
);

browserTest('the shown code sends the same request', async (t) => {
  const key = await stack().mintKey('coder');
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('try-it');
  await console.signIn('coder');
  await message(page).fill(`It's "five" & $KEY\n</script>`);
  await page.getByLabel('Max output tokens').fill('64');
  await using folder = await openExampleFolder();
  const directory = folder.path;

  const curl = await run('bash', ['-c', await programOf(page, 'curl')], { key, directory });
  t.regex(curl, /"content":"You"/);
  t.regex(curl, /data: \[DONE\]/);

  await writeFile(join(directory, 'shown.mjs'), await programOf(page, 'Node.js'));
  const node = await run(process.execPath, ['shown.mjs'], { key, directory });
  t.true(node.includes(`It's "five" & $KEY\n</script>`), node);

  if (python !== undefined) {
    await writeFile(join(directory, 'shown.py'), await programOf(page, 'Python'));
    const printed = await run(python, ['shown.py'], { key, directory });
    t.true(printed.includes(`It's "five" & $KEY\n</script>`), printed);
  }
  await console.requireClean(t);
});

/** Alone: the model that fails is used by others. */
browserTestAlone('a stopped answer, an interrupted one and a refusal are labelled as such', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('try-it');
  await console.signIn('stopper');
  await page.getByRole('combobox', { name: 'Model', exact: true }).selectOption('medium-chat');
  await ask(page, 'Say much. '.repeat(80));
  await page.getByText('Streaming …').waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByText('Stopped before the answer was complete.').waitFor();

  for (const server of stack().modelServers) server.fail({ cutAfterChunks: 3 }, 'medium-chat');
  await ask(page, 'Break off in the middle of this');
  const failure = page.locator('.failure');
  t.regex(
    await failure.innerText(),
    /The model server broke off before its answer was complete\.\s+UPSTREAM_INTERRUPTED · request req_/,
  );
  const help = await failure.getByRole('link', { name: 'What this means' }).getAttribute('href');
  t.is(help, `${stack().baseUrl}/docs/errors#UPSTREAM_INTERRUPTED`);
  t.true((await page.locator('.answer').last().innerText()).length > 0, 'text received so far stays');
  t.regex((await page.getByRole('link', { name: 'Why it failed' }).getAttribute('href')) ?? '', /^#requests\/req_/);

  console.expectFailures();
  await page.getByRole('button', { name: 'Use another key' }).click();
  await page.getByLabel('API key').fill(`svc_${'0'.repeat(38)}`);
  await ask(page, 'With a key that is none');
  await page.getByText('401 INVALID_KEY').waitFor();
  t.is(await page.getByRole('link', { name: 'Why it failed' }).count(), 1, 'it was not admitted');
  await page.getByRole('button', { name: 'Use no key of mine' }).click();
  for (const server of stack().modelServers) server.heal();
  await console.requireClean(t);
});

browserTest('each endpoint offers its models, streams or shows its answer, and its failures', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('try-it');
  await console.signIn('chooser');
  const endpoints = page.getByRole('combobox', { name: 'Endpoint' });
  const model = page.getByRole('combobox', { name: 'Model', exact: true });
  const reply = page.locator('.reply').last();
  for (const [endpoint, answers] of [
    ['Responses', 1],
    ['Messages', 2],
  ] as const) {
    await endpoints.selectOption({ label: endpoint });
    t.deepEqual(await model.locator('option').allInnerTexts(), ['small-chat', 'medium-chat'], endpoint);
    await ask(page, `Tell me of ${endpoint}.`);
    await page.getByText('Streaming …').waitFor();
    await page.getByText('The answer is complete.').waitFor();
    t.is(await page.locator('.reply').count(), answers);
    t.true((await reply.locator('.answer').innerText()).includes(`Tell me of ${endpoint}.`));
    t.regex(await reply.locator('.timing').innerText(), /Tokens\n+\d+ \+ \d+\n/);
  }

  await endpoints.selectOption({ label: 'Embeddings' });
  t.deepEqual(await model.locator('option').allInnerTexts(), ['small-embed']);
  await page.getByRole('button', { name: 'Send' }).click();
  await page.locator('.reply').nth(2).getByText('Vector of').waitFor();
  t.regex(await reply.locator('.answer').innerText(), /^Vector of 8 numbers: (-?0\.\d{4}(, )?){8}$/);
  t.is(await page.getByRole('textbox', { name: 'Input' }).inputValue(), 'Where is Bonn?', 'it is kept');

  console.expectFailures();
  await endpoints.selectOption({ label: 'Messages' });
  await page.getByLabel('Max output tokens').fill('1000000');
  await ask(page, 'Too much');
  await page.getByText('max_tokens: expected at most 4096').waitFor();
  await page.getByText('400 VALIDATION_ERROR').waitFor();
  await console.requireClean(t);
});

browserTest('the shown code of each endpoint runs', async (t) => {
  const key = await stack().mintKey('coders');
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('try-it');
  await console.signIn('coders');
  await using folder = await openExampleFolder();
  const directory = folder.path;
  const wanted = { Responses: /You said/, Messages: /You said/, Embeddings: /8 *\[/ };
  await page.getByLabel('Max output tokens').fill('4'); // of a slow model
  for (const [endpoint, expected] of Object.entries(wanted)) {
    await page.getByRole('combobox', { name: 'Endpoint' }).selectOption({ label: endpoint });
    const curl = await run('bash', ['-c', await programOf(page, 'curl')], { key, directory });
    t.regex(curl, /response\.incomplete|message_stop|"embedding"/, endpoint);
    await writeFile(join(directory, 'shown.mjs'), await programOf(page, 'Node.js'));
    t.regex(await run(process.execPath, ['shown.mjs'], { key, directory }), expected, endpoint);
    if (python === undefined) continue;
    await writeFile(join(directory, 'shown.py'), await programOf(page, 'Python'));
    t.regex(await run(python, ['shown.py'], { key, directory }), expected, endpoint);
  }
  await console.requireClean(t);
});

async function run(program: string, args: string[], { key, directory }: { key: string; directory: string }) {
  const child = spawn(program, args, {
    cwd: directory,
    env: { PATH: process.env.PATH ?? '', KEY: key },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 30_000,
  });
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return `${out}${err}`;
}
