import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import test from 'ava';
import { startedModels } from '../stack/started-models.ts';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { findPython, noPython, openExampleFolder } from '../support/documentation/run-examples.ts';
import { skipTest } from '../support/skip-test.ts';

const python = await findPython();
if (python === undefined) skipTest(test, { title: 'the Python code that is shown', reason: noPython });

const { browserTest, stack, openConsole } = openBrowserTests(test, {
  modelServers: { firstTokenMs: 50, tokensPerSecond: 12 },
  models: startedModels,
});

browserTest('an answer streams with its times and tokens, and the key is stored nowhere', async (t) => {
  const key = await stack().mintKey('trier');
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('try-it');
  await console.signIn('trier');
  await page.getByLabel('Text of message 1').fill('Count to five, slowly.');
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Send' }).click();
  const answer = page.locator('.answer');
  await page.getByText('Streaming …').waitFor();
  const part = await answer.innerText();
  await page.getByText('The answer is complete.').waitFor();
  const whole = await answer.innerText();
  t.true(whole.includes('Count to five, slowly.'), whole);
  t.true(whole.startsWith(part) && part.length < whole.length, 'it appeared in parts');
  const figures = await page.locator('section:has(#answer-title) .figures').innerText();
  t.regex(figures, /Time to first token\n+[\d,]+ ms/);
  t.regex(figures, /Prompt tokens\n+\d+\n/);
  t.regex(figures, /Request ID\n+req_[0-9A-Z]{5}…[0-9A-Z]{5}/);
  const [prompt = 0, completion = 0, total = 0] = ['Prompt tokens', 'Completion tokens', 'Total tokens'].map((name) =>
    Number(new RegExp(`${name}\\n+(\\d+)`).exec(figures)?.[1]),
  );
  t.true(prompt > 0 && completion > 0);
  t.is(total, prompt + completion);
  await console.requireClean(t);
});

browserTest('the shown code sends the same request', async (t) => {
  const key = await stack().mintKey('coder');
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('try-it');
  await console.signIn('coder');
  await page.getByLabel('Text of message 1').fill(`It's "five" & $KEY\n</script>`);
  await page.getByLabel('Max output tokens').fill('64');
  await using folder = await openExampleFolder();
  const directory = folder.path;
  const code = page.locator('pre code');

  const curl = await run('bash', ['-c', await code.innerText()], { key, directory });
  t.regex(curl, /"content":"You"/);
  t.regex(curl, /data: \[DONE\]/);

  await page.getByLabel('Node.js').check();
  await writeFile(join(directory, 'shown.mjs'), await code.innerText());
  const node = await run(process.execPath, ['shown.mjs'], { key, directory });
  t.true(node.includes(`It's "five" & $KEY\n</script>`), node);

  if (python !== undefined) {
    await page.getByLabel('Python').check();
    await writeFile(join(directory, 'shown.py'), await code.innerText());
    const printed = await run(python, ['shown.py'], { key, directory });
    t.true(printed.includes(`It's "five" & $KEY\n</script>`), printed);
  }
  await console.requireClean(t);
});

browserTest('a stopped answer, an interrupted one and a refusal are labelled as such', async (t) => {
  const key = await stack().mintKey('stopper');
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('try-it');
  await console.signIn('stopper');
  await page.getByRole('combobox', { name: 'Model', exact: true }).selectOption('medium-chat');
  await page.getByLabel('API key').fill(key);
  await page.getByLabel('Text of message 1').fill('Say much. '.repeat(80));
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText('Streaming …').waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByText('Stopped before the answer was complete.').waitFor();

  for (const server of stack().modelServers) server.fail({ cutAfterChunks: 3 }, 'medium-chat');
  await page.getByLabel('Text of message 1').fill('Break off in the middle of this');
  await page.getByRole('button', { name: 'Send' }).click();
  const failure = page.locator('.failure');
  t.regex(
    await failure.innerText(),
    /The model server broke off before its answer was complete\.\s+UPSTREAM_INTERRUPTED · request req_/,
  );
  const help = await failure.getByRole('link', { name: 'What this means' }).getAttribute('href');
  t.is(help, `${stack().baseUrl}/docs/errors#UPSTREAM_INTERRUPTED`);
  t.true((await page.locator('.answer').innerText()).length > 0, 'text received so far stays');

  console.expectFailures();
  await page.getByLabel('API key').fill(`svc_${'0'.repeat(38)}`);
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText('401 INVALID_KEY').waitFor();
  await page.getByLabel('API key').fill('');
  await console.requireClean(t);
});

browserTest('each endpoint offers its models, streams or shows its answer, and its failures', async (t) => {
  const key = await stack().mintKey('chooser');
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('try-it');
  await console.signIn('chooser');
  await page.getByLabel('API key').fill(key);
  const model = page.getByRole('combobox', { name: 'Model', exact: true });
  const answer = page.locator('.answer');
  for (const endpoint of ['Responses', 'Messages']) {
    await page.getByLabel(endpoint, { exact: true }).check();
    t.deepEqual(await model.locator('option').allInnerTexts(), ['small-chat', 'medium-chat'], endpoint);
    await page.getByLabel('Text of message 1').fill(`Tell me of ${endpoint}.`);
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText('Streaming …').waitFor();
    await page.getByText('The answer is complete.').waitFor();
    t.true((await answer.innerText()).includes(`Tell me of ${endpoint}.`));
    const figures = await page.locator('section:has(#answer-title) .figures').innerText();
    t.regex(figures, /Prompt tokens\n+\d+\n+Completion tokens\n+\d+\n+Total tokens\n+\d+\n/);
  }

  await page.getByLabel('Embeddings', { exact: true }).check();
  t.deepEqual(await model.locator('option').allInnerTexts(), ['small-embed']);
  await page.getByText('No answer yet.').waitFor();
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText('The answer is complete.').waitFor();
  t.regex(await answer.innerText(), /^Vector of 8 numbers: (-?0\.\d{4}(, )?){8}$/);

  console.expectFailures();
  await page.getByLabel('Messages', { exact: true }).check();
  await page.getByLabel('Max output tokens').fill('1000000');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText('max_tokens: expected at most 4096').waitFor();
  await page.getByText('400 VALIDATION_ERROR').waitFor();
  await page.getByLabel('API key').fill('');
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
  const code = page.locator('pre code');
  const wanted = { Responses: /You said/, Messages: /You said/, Embeddings: /8 *\[/ };
  await page.getByLabel('Max output tokens').fill('4'); // of a slow model
  for (const [endpoint, expected] of Object.entries(wanted)) {
    await page.getByLabel(endpoint, { exact: true }).check();
    await page.getByRole('radio', { name: 'curl' }).check();
    const curl = await run('bash', ['-c', await code.innerText()], { key, directory });
    t.regex(curl, /response\.incomplete|message_stop|"embedding"/, endpoint);
    await page.getByRole('radio', { name: 'Node.js' }).check();
    await writeFile(join(directory, 'shown.mjs'), await code.innerText());
    t.regex(await run(process.execPath, ['shown.mjs'], { key, directory }), expected, endpoint);
    if (python === undefined) continue;
    await page.getByRole('radio', { name: 'Python' }).check();
    await writeFile(join(directory, 'shown.py'), await code.innerText());
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
