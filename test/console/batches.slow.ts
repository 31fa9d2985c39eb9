import { readFile } from 'node:fs/promises';
import test from 'ava';
import { lineOf, linesOf, openBatchClient } from '../support/batch-client.ts';
import { openBrowserTests } from '../support/browser/browser-tests.ts';

const { browserTest, stack, openConsole } = openBrowserTests(test, {
  modelServers: { firstTokenMs: 60, tokensPerSecond: 40 },
});

const asFile = (name: string, lines: string) => ({ name, mimeType: 'application/jsonl', buffer: Buffer.from(lines) });

browserTest('a file of 200 lines goes from upload to download, and the progress bar moves', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('batches');
  await console.signIn('batcher');
  await page.getByText('You have no batches yet.').waitFor();
  const [sample] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download a sample file' }).click(),
  ]);
  t.is((await readFile(await sample.path(), 'utf8')).match(/"model":"small-chat"/g)?.length, 3);
  await page.getByLabel(/^Drop a JSONL file/).setInputFiles(asFile('in.jsonl', linesOf(200)));
  await page.getByRole('heading', { name: 'in.jsonl' }).waitFor();
  const shown = await page.locator('.card .figures').innerText();
  t.regex(shown, /Lines\s+200\s/);
  t.regex(shown, /Model\s+small-chat\s/);
  t.regex(shown, /Answer tokens, at most\s+800/);
  await page.getByRole('button', { name: 'Create the batch' }).click();
  await page.waitForURL(/#batches\/batch_[0-9A-Z]{26}$/);
  const bar = page.getByRole('progressbar', { name: 'Finished lines of in.jsonl' });
  const seen = new Set<number>();
  const download = page.getByRole('button', { name: 'Download results' });
  while (!(await download.isVisible())) {
    seen.add(Number(await bar.getAttribute('value', { timeout: 5_000 }).catch(() => 0)));
    await page.waitForTimeout(100);
  }
  t.true(
    [...seen].some((done) => done > 0 && done < 200),
    `seen: ${[...seen].join(', ')}`,
  );
  await page.getByText('200 done', { exact: true }).waitFor();
  await page.getByRole('heading', { name: 'in.jsonl completed', level: 1 }).waitFor();
  t.regex(await page.locator('.figures').innerText(), /Duration\s+[\d.]+ (ms|s|min)/);
  await page.getByRole('link', { name: 'Batches', exact: true }).first().click();
  const row = page.locator('[data-batch]');
  t.regex(await row.innerText(), /in\.jsonl\s+completed\s+200 done/);
  await row.getByRole('link', { name: 'in.jsonl' }).click();
  const held = Promise.withResolvers<void>();
  await page.route('**/v1/files/*/content', async (route) => {
    await held.promise;
    await route.continue();
  });
  const saved = page.waitForEvent('download');
  await download.click();
  const announced = page.getByRole('status');
  await announced.filter({ hasText: 'Downloading …' }).waitFor();
  await page.getByText(/ received$/).waitFor();
  t.is(await announced.filter({ hasText: 'received' }).count(), 0, 'numbers are not announced');
  held.resolve();
  const file = await saved;
  t.regex(file.suggestedFilename(), /^batch_[0-9A-Z]{26}-output\.jsonl$/);
  const lines = (await readFile(await file.path(), 'utf8')).trimEnd().split('\n');
  const names = lines.map((line) => (JSON.parse(line) as { custom_id: string }).custom_id); // a file of the service itself
  t.deepEqual(names.toSorted(), Array.from({ length: 200 }, (_, index) => `line-${index + 1}`).toSorted());
  await console.requireClean(t);
});

browserTest('the progress bar of an upload follows the bytes sent, and a stopped upload leaves no batch', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('batches');
  await console.signIn('uploader');
  const network = await page.context().newCDPSession(page);
  await network.send('Network.enable');
  const slowly = { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: 60_000 };
  await network.send('Network.emulateNetworkConditions', slowly);
  const lines = asFile('large.jsonl', linesOf(2_000, { content: 'x'.repeat(900) }));
  await page.getByLabel(/^Drop a JSONL file/).setInputFiles(lines);
  await page.getByRole('button', { name: 'Create the batch' }).click();
  const bar = page.getByRole('progressbar', { name: 'Upload of large.jsonl' });
  const sent = async () => Number(await bar.getAttribute('value'));
  const whole = Number(await bar.getAttribute('max'));
  t.true(whole >= lines.buffer.length);
  let before = await sent();
  for (let moves = 0; moves < 3; ) {
    await page.waitForTimeout(50);
    const now = await sent();
    t.true(now >= before && now < whole, `${before} ${now} ${whole}`);
    if (now > before) moves += 1;
    before = now;
  }
  await page.getByRole('button', { name: 'Stop the upload' }).click();
  await bar.waitFor({ state: 'detached' });
  t.is(await page.locator('.failure').count(), 0);
  t.true(await page.getByText('You have no batches yet.').isVisible());
  await console.requireClean(t);
});

browserTest('errors in a file are shown by line and field', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  console.expectFailures();
  await console.goTo('batches');
  await console.signIn('careless');
  const lines = [
    lineOf('good'),
    lineOf('good'),
    'no JSON',
    lineOf('third').replace('POST', 'GET'),
    lineOf('other', { model: 'nope' }),
  ];
  await page.getByLabel(/^Drop a JSONL file/).setInputFiles(asFile('bad.jsonl', lines.join('\n')));
  const seen = page.getByRole('region', { name: 'Faults of its lines' });
  await seen.waitFor();
  t.deepEqual(
    (await seen.locator('tbody tr').allInnerTexts()).map((row) => row.split('\t')[0]),
    ['2', '3', '4', '5'],
  );
  await page.getByText('This file has 4 errors. Correct them first: a batch with errors does not run.').waitFor();
  t.regex(await page.locator('.card .figures').innerText(), /Model\s+small-chat\s/, 'an unknown one is a fault');
  t.is(await page.locator('.card button.primary').innerText(), 'Choose another file');
  await page.getByRole('button', { name: 'Create it anyway' }).click();
  const faults = page.getByRole('region', { name: 'Errors by line' });
  await faults.waitFor();
  const rows = (await faults.locator('tbody tr').allInnerTexts()).map((row) => row.split('\t').slice(0, 2));
  t.deepEqual(rows, [
    ['2', 'custom_id'],
    ['3', '–'],
    ['4', 'method'],
  ]);
  t.true(await page.getByText('3 errors in the file: no line was run or charged').isVisible());

  await console.goTo('batches');
  await page.getByLabel(/^Drop a JSONL file/).setInputFiles(asFile('empty.jsonl', ''));
  await page.getByText('The file has no lines.').waitFor();
  t.true(await page.getByRole('button', { name: 'Create it anyway' }).isDisabled());
  await page.getByRole('button', { name: 'Choose another file' }).click();

  const elsewhere = lineOf('x').replace('/v1/chat/completions', '/v1/nowhere');
  await page.getByLabel(/^Drop a JSONL file/).setInputFiles(asFile('elsewhere.jsonl', elsewhere));
  await page.getByRole('button', { name: 'Create the batch' }).click();
  const refusal = page.locator('.failure');
  t.regex(await refusal.innerText(), /VALIDATION_ERROR · request req_/);
  await page.getByLabel(/^Drop a JSONL file/).waitFor();
  await console.requireClean(t);
});

browserTest('reading a file can be stopped, and the first of many models are shown', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('batches');
  await console.signIn('reader');
  const choose = (lines: string) => page.getByLabel(/^Drop a JSONL file/).setInputFiles(asFile('read.jsonl', lines));
  await page.evaluate(() => {
    const { stream } = Blob.prototype;
    Blob.prototype.stream = () => {
      Blob.prototype.stream = stream;
      return new ReadableStream(); // of a slow disk: nothing comes
    };
  });
  await choose(linesOf(1));
  await page.getByText('Reading read.jsonl …').waitFor();
  await page.getByRole('button', { name: 'Stop reading' }).click();
  await page.getByText('Reading read.jsonl …').waitFor({ state: 'detached' });
  t.is(await page.locator('.failure').count(), 0);

  const models = Array.from({ length: 12 }, (_, index) => ({ id: `m-${index}`, endpoints: ['chat'] }));
  await page.route('**/v1/models', (route) => route.fulfill({ json: { object: 'list', data: models } }));
  await choose(Array.from({ length: 12 }, (_, index) => lineOf(`line-${index}`, { model: `m-${index}` })).join('\n'));
  await page.getByRole('heading', { name: 'read.jsonl' }).waitFor();
  t.regex(await page.locator('.card .figures').innerText(), /Models\s+m-0, m-1, .*m-9 and 2 more/);
  await console.requireClean(t);
});

browserTest('a running batch is cancelled after confirmation, and finished lines can be downloaded', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('batches');
  await console.signIn('canceller');
  const slow = linesOf(400, { maxTokens: 40, content: 'a rather long answer, please '.repeat(4) });
  await page.getByLabel(/^Drop a JSONL file/).setInputFiles(asFile('slow.jsonl', slow));
  await page.getByRole('button', { name: 'Create the batch' }).click();
  await page.getByText(/^[1-9]\d* of 400 lines · [\d.]+ lines\/(s|min) · about .* left$/).waitFor();
  await page.getByRole('button', { name: 'Cancel' }).click();
  const dialog = page.getByRole('dialog', { name: 'Cancel this batch?' });
  t.regex(await dialog.innerText(), /Lines that have not run yet end as batch_cancelled and cost nothing/);
  await dialog.getByRole('button', { name: 'Cancel the batch' }).click();
  await page.getByRole('heading', { name: 'slow.jsonl cancelled' }).waitFor();
  await page.getByText(/^\d+ done · \d+ cancelled$/).waitFor();
  const codes = page.getByRole('region', { name: 'By the code of their error' });
  t.regex(await codes.innerText(), /batch_cancelled\s+\d+/);
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download failed lines' }).click(),
  ]);
  t.regex(await readFile(await file.path(), 'utf8'), /batch_cancelled/);
  t.true(await page.getByRole('button', { name: /^Run the other lines \(\d+\)$/ }).isVisible());
  await console.requireClean(t);
});

browserTest('lines that have failed are shown, and run again as a new batch', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  console.expectFailures(); // the model is asked for
  await console.goTo('batches');
  await console.signIn('repeater');
  const lines = [lineOf('right'), lineOf('wrong', { model: 'nope' })];
  await page.getByLabel(/^Drop a JSONL file/).setInputFiles(asFile('half.jsonl', lines.join('\n')));
  await page.getByText('The service runs the others').waitFor();
  await page.getByRole('button', { name: 'Create the batch anyway' }).click();
  await page.getByText('1 done · 1 failed').waitFor();
  await page.getByRole('region', { name: 'By the code of their error' }).waitFor();
  const first = page.url();
  await page.getByRole('button', { name: 'Run the failed lines again (1)' }).click();
  await page.getByText('Runs again lines of').waitFor();
  t.not(page.url(), first);
  await page.getByText('1 failed', { exact: true }).waitFor();
  await console.requireClean(t);
});

browserTest(
  'a user who leaves the page while a batch is created is not led back, and the batch is there',
  async (t) => {
    await using console = await openConsole();
    const { page } = console;
    await console.goTo('batches');
    await console.signIn('leaver');
    const held = Promise.withResolvers<void>();
    await page.route('**/v1/batches', async (route) => {
      if (route.request().method() === 'POST') await held.promise;
      await route.continue();
    });
    await page.getByLabel(/^Drop a JSONL file/).setInputFiles(asFile('left.jsonl', linesOf(1)));
    await page.getByRole('button', { name: 'Create the batch' }).click();
    await page.getByText('Creating a batch from left.jsonl …').waitFor();
    await page.getByRole('link', { name: 'Requests', exact: true }).click();
    await page.getByRole('heading', { name: 'Requests', exact: true }).waitFor();
    const created = page.waitForResponse((response) => response.request().method() === 'POST');
    held.resolve();
    await (await created).finished();
    await page.getByRole('row').filter({ hasText: 'completed' }).waitFor();
    t.is(page.url(), `${console.url}#requests`);
    await page.getByRole('link', { name: 'Batches', exact: true }).click();
    await page.getByRole('link', { name: 'left.jsonl' }).waitFor();
    await console.requireClean(t);
  },
);

browserTest('older batches are shown on request', async (t) => {
  const user = await openBatchClient(stack(), 'collector');
  const input_file_id = await user.upload(linesOf(1));
  const batch = { input_file_id, endpoint: '/v1/chat/completions', completion_window: '24h' } as const;
  for (let made = 0; made < 22; made += 1) await user.client.batches.create(batch);
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('batches');
  await console.signIn('collector');
  const cards = page.locator('[data-batch]');
  await cards.nth(19).waitFor();
  t.is(await cards.count(), 20);
  await page.getByRole('button', { name: 'Show more' }).click();
  await cards.nth(21).waitFor();
  t.is(await cards.count(), 22);
  t.is(await page.getByRole('button', { name: 'Show more' }).count(), 0);
  await console.requireClean(t);
});
