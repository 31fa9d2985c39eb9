import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'ava';
import OpenAI, { NotFoundError, toFile } from 'openai';
import { type Stack, startStack } from '../stack/stack.ts';
import { documentedFetch } from '../support/documented/documented-fetch.ts';
import { createFileClient, line } from '../support/file-client.ts';
import { filesLeft } from '../support/files-left.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { exchange } from '../support/raw-http.ts';
import { head } from '../support/refusal.ts';

let stack: Stack;
let keys: KeyClient;
let url: string;
const parts = new AsyncDisposableStack();

test.before(async () => {
  stack = parts.use(await startStack({ workers: 0, batch: { files_kept_days: 7 } }));
  keys = createKeyClient(stack);
  url = stack.ingresses[0]?.url ?? '';
});

test.after.always(() => parts.disposeAsync());

const openClient = (apiKey: string) =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0, fetch: documentedFetch });

test('the official SDK uploads a file from a stream, finds it, reads it as a stream, and deletes it', async (t) => {
  const path = join(stack.directory, 'requests.jsonl');
  const text = Array.from({ length: 20_000 }, (_, index) => `${line(`${index}`)}\n`).join('');
  await writeFile(path, text);
  for (const apiKey of [await keys.newKey('sdk'), await keys.token('sdk')]) {
    const client = openClient(apiKey);
    const before = Math.floor(Date.now() / 1000) - 1;
    const made = await client.files.create({ purpose: 'batch', file: createReadStream(path) });
    t.regex(made.id, /^file-[0-9A-HJKMNP-TV-Z]{26}$/);
    const { id, created_at, expires_at, key_id, ...rest } = { key_id: undefined, ...made };
    const isKey = apiKey.startsWith('svc_');
    t.is(key_id as unknown, isKey ? (await keys.list('sdk'))[0]?.id : null);
    t.deepEqual(rest, {
      object: 'file',
      bytes: Buffer.byteLength(text),
      filename: 'requests.jsonl',
      purpose: 'batch',
      status: 'processed',
    });
    t.true(created_at >= before && created_at <= Date.now() / 1000 + 1);
    t.is(expires_at, created_at + 7 * 86_400);
    t.deepEqual({ ...(await client.files.retrieve(id)) }, { ...made });

    const content = await client.files.content(id);
    t.is(content.headers.get('content-length'), String(made.bytes));
    t.is(content.headers.get('cache-control'), 'no-store');
    t.is(await content.text(), text);

    t.like(await client.files.delete(id), { id, object: 'file', deleted: true });
    for (const gone of [
      () => client.files.retrieve(id),
      () => client.files.content(id),
      () => client.files.delete(id),
    ]) {
      await t.throwsAsync(gone, { instanceOf: NotFoundError });
    }
  }
});

test('the official SDK lists the account’s own files in pages, each once, newest or oldest first', async (t) => {
  const apiKey = await keys.newKey('lister');
  const client = openClient(apiKey);
  const ids: string[] = [];
  for (let index = 0; index < 7; index++) {
    ids.push((await client.files.create({ purpose: 'batch', file: await toFile(Buffer.from('a'), `${index}`) })).id);
  }
  await createFileClient(stack, await keys.newKey('another-lister')).upload('a');
  const found = { desc: [] as string[], asc: [] as string[] };
  for (const order of ['desc', 'asc'] as const) {
    for await (const { id } of client.files.list({ limit: 2, order })) found[order].push(id);
  }
  t.deepEqual(found.asc, ids.toSorted());
  t.deepEqual(found.desc, ids.toSorted().reverse());
  const whole = await client.files.list();
  t.deepEqual([whole.data.length, whole.has_more], [7, false]);
  t.is((await client.files.list({ purpose: 'batch_output' })).data.length, 0);
});

test('a file is returned byte for byte, for any content', async (t) => {
  const bytes = randomBytes(3_000_000);
  const client = openClient(await keys.newKey('bytes'));
  const { id } = await client.files.create({ purpose: 'batch', file: await toFile(bytes, 'random') });
  const content = await client.files.content(id);
  t.true(bytes.equals(Buffer.from(await content.arrayBuffer()))); // deepEqual blocks the process for seconds
});

test('HEAD of a file’s content has its length and name, and no body', async (t) => {
  const key = await keys.newKey('header');
  const client = openClient(key);
  const { id } = await client.files.create({
    purpose: 'batch',
    file: await toFile(Buffer.from('abc'), 'ü "x";\n.jsonl'),
  });
  const authorization = `Authorization: Bearer ${key}`;
  const port = Number(new URL(url).port);
  const send = head(`HEAD /v1/files/${id}/content HTTP/1.1`, authorization);
  const { status, headers, body } = await exchange({ port, method: 'HEAD', send });
  t.is(status, 200);
  t.is(body, '');
  t.is(headers['content-length'], '3');
  t.is(headers['content-type'], 'application/octet-stream');
  t.regex(headers['content-disposition'] ?? '', /^attachment; filename=".*"; filename\*=UTF-8''%C3%BC[!-~]*$/);
  const whole = await exchange({ port, send: head(`GET /v1/files/${id}/content HTTP/1.1`, authorization) });
  t.is(whole.body, 'abc');
  t.is(whole.headers['content-disposition'], headers['content-disposition']);
});

test('a file that cannot be read to its end closes the connection, and a missing one gets 503', async (t) => {
  const client = openClient(await keys.newKey('shortened'));
  const size = 30_000_000;
  const { id } = await client.files.create({
    purpose: 'batch',
    file: await toFile(Buffer.alloc(size, 'x'.repeat(999).concat('\n')), 'x'),
  });
  const path = join(stack.directory, 'store.sqlite-files', id);
  const content = await client.files.content(id);
  await truncate(path, size - 1);
  await t.throwsAsync(content.arrayBuffer());
  await rm(path);
  const answer = await keys.send('GET', `/v1/files/${id}/content`, { bearer: await keys.token('shortened') });
  t.like(answer, { status: 503, body: { code: 'SERVICE_UNAVAILABLE' } });
  t.truthy(answer.headers.get('retry-after'));
  await client.files.delete(id);
});

test('if a deletion and a batch race for a file, the file either exists or not', async (t) => {
  const files = createFileClient(stack, await keys.newKey('racer'));
  const ids: string[] = [];
  for (let round = 0; round < 15; round++) {
    const { id } = await files.upload(line('a'));
    ids.push(id);
    const [removed, batch] = await Promise.allSettled([files.remove(id), files.submitBatch(id)]);
    const { data } = (await files.files()) as unknown as { data: { id: string }[] }; // a list of the service itself
    const isThere = data.some((file) => file.id === id);
    t.is(isThere, removed.status === 'rejected', `${removed.status} ${batch.status}`);
    if (removed.status === 'rejected') t.regex(String(removed.reason), /409/);
    t.is(filesLeft(stack).folder.includes(id), isThere);
  }
  const left = filesLeft(stack).records.filter((record) => ids.some((id) => record.startsWith(id)));
  t.deepEqual(
    left.filter((record) => !record.endsWith(' ready')),
    [],
  );
});
