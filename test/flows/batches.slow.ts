import test from 'ava';
import OpenAI, {
  type APIError,
  BadRequestError,
  ConflictError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
  toFile,
  UnprocessableEntityError,
} from 'openai';
import { enterRoom, newRoomEntry } from '../../shared/batches/batch-room.ts';
import { openStore } from '../../shared/process/open-store.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { documentedFetch } from '../support/documented/documented-fetch.ts';
import { createFileClient, line } from '../support/file-client.ts';
import { createFurtherKeyClient } from '../support/further-key-client.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { storedBatch } from '../support/stored-batch.ts';

const noLimits = { batchesMax: 1_000, filesMax: 1_000, bytesMax: 1e9, tokensMax: undefined };
let stack: Stack;
let keys: KeyClient;
let store: Store;
const parts = new AsyncDisposableStack();

// No worker runs: a batch keeps its state.
test.before(async () => {
  const plans = { roomy: { batch_tokens_waiting: 100, model_tiers: ['guest'] } };
  stack = parts.use(await startStack({ workers: 0, plans, batch: { window_s: 7_200 } }));
  keys = createKeyClient(stack);
  store = parts.use(await openStore(`sqlite:${stack.directory}/store.sqlite`, recordedLog()));
});

test.after.always(() => parts.disposeAsync());

const openClient = (apiKey: string) =>
  new OpenAI({ baseURL: `${stack.ingresses[0]?.url}/v1`, apiKey, maxRetries: 0, fetch: documentedFetch });
const batchOptions = { endpoint: '/v1/chat/completions', completion_window: '24h' } as const;

async function openBatchClient(account: string) {
  const client = openClient(await keys.newKey(account));
  const uploaded = await client.files.create({
    purpose: 'batch',
    file: await toFile(Buffer.from(line('a')), 'in.jsonl'),
  });
  return { client, file: uploaded.id };
}

/** Ends the batch as a worker would. */
const end = (id: string, state: 'cancelled' | 'failed') =>
  store.batches.changeBatch(id, (batch) => ({ result: undefined, ...(batch && { next: { ...batch, state } }) }));

test('the official SDK creates, finds and cancels a batch', async (t) => {
  const { client, file } = await openBatchClient('sdk');
  const metadata = { nightly: 'yes', 'ü.$': 'ß' };
  const made = await client.batches.create({ ...batchOptions, input_file_id: file, metadata });
  t.regex(made.id, /^batch_[0-9A-HJKMNP-TV-Z]{26}$/);
  const { id, created_at, expires_at, key_id, ...rest } = { key_id: undefined, ...made };
  t.is(key_id as unknown, (await keys.list('sdk'))[0]?.id);
  const never = {
    ...{ in_progress_at: null, finalizing_at: null, completed_at: null, failed_at: null, expired_at: null },
    ...{ cancelling_at: null, cancelled_at: null },
  };
  t.deepEqual(rest as object, {
    object: 'batch',
    endpoint: '/v1/chat/completions',
    model: null,
    usage: null,
    progress: null,
    retry_of: null,
    error_counts: null,
    errors: null,
    input_file_id: file,
    input_filename: 'in.jsonl',
    completion_window: '24h',
    status: 'validating',
    output_file_id: null,
    error_file_id: null,
    request_counts: { total: 0, completed: 0, failed: 0 },
    metadata,
    ...never,
  });
  t.true(Math.abs(created_at - Date.now() / 1000) < 60);
  t.is(expires_at, created_at + 7_200);
  t.deepEqual({ ...(await client.batches.retrieve(id)) }, { ...made });

  const cancelled = await client.batches.cancel(id);
  t.is(cancelled.status, 'cancelling');
  t.true(Number(cancelled.cancelling_at) >= created_at);
  t.deepEqual({ ...(await client.batches.cancel(id)) }, { ...cancelled }, 'repeating it changes nothing');
  t.deepEqual({ ...(await client.batches.retrieve(id)) }, { ...cancelled });
});

test('a key creates batches of its endpoints only, and is named in them', async (t) => {
  const { file } = await openBatchClient('narrow');
  const settings = { endpoints: ['/v1/embeddings'], files: 'read' };
  const { id, key } = await createFurtherKeyClient(keys, 'narrow').create(settings);
  const client = openClient(key);
  const refused = await t.throwsAsync(client.batches.create({ ...batchOptions, input_file_id: file }), {
    instanceOf: PermissionDeniedError,
  });
  t.regex(refused.message, /endpoint \/v1\/chat\/completions/);
  const made = await client.batches.create({ ...batchOptions, endpoint: '/v1/embeddings', input_file_id: file });
  t.is('key_id' in made && made.key_id, id);
});

test('the official SDK lists the account’s own batches in pages, newest first, each once', async (t) => {
  const { client, file } = await openBatchClient('lister');
  const another = await openBatchClient('another-lister');
  await another.client.batches.create({ ...batchOptions, input_file_id: another.file });
  const ids: string[] = [];
  for (let index = 0; index < 25; index++) {
    ids.push((await client.batches.create({ ...batchOptions, input_file_id: file })).id);
  }
  const found: string[] = [];
  for await (const { id } of client.batches.list({ limit: 10 })) found.push(id);
  t.deepEqual(found, ids.toSorted().reverse());
  const first = await client.batches.list();
  t.deepEqual([first.data.length, first.has_more], [20, true]);
});

test('a repeat with the same idempotency key gets the batch as it is now', async (t) => {
  const { client, file } = await openBatchClient('repeater');
  const headers = { 'idempotency-key': 'nightly' };
  const asked = { ...batchOptions, input_file_id: file, metadata: { a: '1', b: '2' } };
  const create = (changes: object = {}) => client.batches.create({ ...asked, ...changes }, { headers }).withResponse();
  const first = await create();
  t.is(first.response.headers.get('idempotent-replayed'), null);
  await end(first.data.id, 'failed');
  const again = await create({ metadata: { b: '2', a: '1' } });
  t.is(again.response.headers.get('idempotent-replayed'), 'true');
  t.deepEqual([again.data.id, again.data.status], [first.data.id, 'failed']);
  const token = openClient(await keys.token('repeater'));
  t.is((await token.batches.create(asked, { headers })).id, first.data.id, 'the key belongs to the account');

  const another = await openBatchClient('another-repeater');
  const theirs = await another.client.batches.create({ ...asked, input_file_id: another.file }, { headers });
  t.not(theirs.id, first.data.id);
  for (const change of [
    { metadata: null },
    { metadata: { a: '1' } },
    { endpoint: '/v1/embeddings' },
    { input_file_id: 'x' },
  ]) {
    const message = /This idempotency key was used for another request/;
    await t.throwsAsync(create(change), { instanceOf: UnprocessableEntityError, message });
  }
  t.is((await client.batches.list()).data.length, 1);
});

test('of 20 concurrent creations with one idempotency key, one makes the batch, and all get it', async (t) => {
  const { client, file } = await openBatchClient('hasty');
  const create = () =>
    client.batches
      .create({ ...batchOptions, input_file_id: file }, { headers: { 'idempotency-key': 'once' } })
      .withResponse();
  const all = await Promise.all(Array.from({ length: 20 }, create));
  t.is(new Set(all.map(({ data }) => data.id)).size, 1);
  t.is(all.filter(({ response }) => response.headers.get('idempotent-replayed') === null).length, 1);
  t.is((await client.batches.list()).data.length, 1);
});

test('a creation that was refused leaves its idempotency key free', async (t) => {
  const { client, file } = await openBatchClient('late-uploader');
  const headers = { 'idempotency-key': 'nightly' };
  const create = (input_file_id: string) => client.batches.create({ ...batchOptions, input_file_id }, { headers });
  await t.throwsAsync(create('file-unknown'), { instanceOf: BadRequestError });
  t.is((await create(file)).status, 'validating');
});

test('files and batches of another account get 404', async (t) => {
  const mine = await openBatchClient('owner');
  const batch = await mine.client.batches.create({ ...batchOptions, input_file_id: mine.file });
  const { client } = await openBatchClient('stranger');
  const notThere: (() => Promise<unknown>)[] = [
    () => client.files.retrieve(mine.file),
    () => client.files.content(mine.file),
    () => client.files.delete(mine.file),
    () => client.batches.retrieve(batch.id),
    () => client.batches.cancel(batch.id),
  ];
  for (const ask of notThere) await t.throwsAsync(ask, { instanceOf: NotFoundError });
  await t.throwsAsync(() => client.batches.create({ ...batchOptions, input_file_id: mine.file }), {
    instanceOf: BadRequestError,
    message: /input_file_id: there is no such file/,
  });
  t.is((await mine.client.batches.retrieve(batch.id)).status, 'validating');
  // A key and the sign-in token of one account see the same.
  t.is((await openClient(await keys.token('owner')).batches.retrieve(batch.id)).id, batch.id);
});

test('the input of an unfinished batch cannot be deleted; the input of a finished batch can', async (t) => {
  const { client, file } = await openBatchClient('deleter');
  const { id } = await client.batches.create({ ...batchOptions, input_file_id: file });
  const refused = await t.throwsAsync(() => client.files.delete(file), { instanceOf: ConflictError });
  t.is((refused as APIError).headers?.get('x-should-retry'), 'false');
  t.is(await (await client.files.content(file)).text(), line('a'));
  await client.batches.cancel(id);
  await t.throwsAsync(() => client.files.delete(file), { instanceOf: ConflictError }, 'it is not finished');
  await end(id, 'cancelled');
  t.true((await client.files.delete(file)).deleted);
});

test('waiting tokens are counted across the account’s batches: a batch that exceeds the limit gets 429 and is not retried', async (t) => {
  const { client, file } = await openBatchClient('crowd');
  await keys.change('user:crowd', { plan: 'roomy' });
  const tokens = (await store.batches.findFile(file))?.tokens ?? 0;
  t.true(tokens > 0 && tokens < 100);
  const fitting = Math.floor(100 / tokens);
  const made: string[] = [];
  for (let index = 0; index < fitting; index++) {
    made.push((await client.batches.create({ ...batchOptions, input_file_id: file })).id);
  }
  const refused = await t.throwsAsync(() => client.batches.create({ ...batchOptions, input_file_id: file }), {
    instanceOf: RateLimitError,
  });
  const { headers, error } = refused as APIError;
  t.like(error, { code: 'rate_limit_exceeded', type: 'batch_limit', retry_after_ms: 60_000 });
  t.is(headers?.get('retry-after-ms'), '60000');
  t.is(headers?.get('x-should-retry'), 'false');
  const [first = ''] = made;
  await end(first, 'failed');
  t.is((await client.batches.create({ ...batchOptions, input_file_id: file })).status, 'validating');
});

test('an account has at most a hundred unfinished batches, even on a plan without limits', async (t) => {
  const { client, file } = await openBatchClient('many');
  await keys.change('user:many', { plan: 'pro' });
  const create = () => client.batches.create({ ...batchOptions, input_file_id: file });
  const others = [
    ...Array.from({ length: 98 }, () => storedBatch('user:many', { state: 'in_progress', open: true })),
    storedBatch('user:many', { state: 'completed', open: true }),
    storedBatch('user:another', { state: 'in_progress', open: true }),
  ];
  for (const batch of others) {
    const { id, account, createdAt: since } = batch;
    const entry = newRoomEntry({ lines: 1, tokens: 1, since });
    await store.batches.changeRoom(account, enterRoom(id, entry, noLimits));
    await store.batches.insertBatch(batch);
  }
  t.is((await create()).status, 'validating');
  const { id } = await create();
  const refused = await t.throwsAsync(create, { instanceOf: RateLimitError, message: /100 unfinished batches/ });
  const { headers, error } = refused as APIError;
  t.like(error, { code: 'rate_limit_exceeded', type: 'batch_limit', retry_after_ms: 60_000 });
  t.is(headers?.get('retry-after-ms'), '60000');
  t.is(headers?.get('x-should-retry'), 'false');
  await end(id, 'cancelled');
  t.is((await create()).status, 'validating');
  await t.throwsAsync(create, { instanceOf: RateLimitError });
});

test('a batch in each state is shown with its times, counts and errors', async (t) => {
  const client = openClient(await keys.newKey('shown'));
  const at = (second: number) => new Date(1_900_000_000_900 + second * 1000);
  const errors = [{ code: 'invalid_json', line: 3, param: null, message: 'expected JSON' }];
  const batch = storedBatch('user:shown', {
    ...{ state: 'expired', errors, counts: { total: 9, completed: 5, failed: 4 } },
    ...{ outputFile: 'file-1', errorFile: 'file-2', createdAt: at(0), expiresAt: at(8), inProgressAt: at(1) },
    ...{
      finalizingAt: at(2),
      completedAt: at(3),
      failedAt: at(4),
      expiredAt: at(5),
      cancellingAt: at(6),
      cancelledAt: at(7),
    },
  });
  await store.batches.insertBatch(batch);
  t.like(await client.batches.retrieve(batch.id), {
    status: 'expired',
    errors: { object: 'list', data: errors },
    output_file_id: 'file-1',
    error_file_id: 'file-2',
    request_counts: { total: 9, completed: 5, failed: 4 },
    created_at: 1_900_000_000,
    in_progress_at: 1_900_000_001,
    finalizing_at: 1_900_000_002,
    completed_at: 1_900_000_003,
    failed_at: 1_900_000_004,
    expired_at: 1_900_000_005,
    cancelling_at: 1_900_000_006,
    cancelled_at: 1_900_000_007,
    expires_at: 1_900_000_008,
  });
});

test('an operator sees the last twenty batches of an account, without their content', async (t) => {
  const files = createFileClient(stack, await keys.newKey('watched'));
  const { id: file } = await files.upload(line('a'));
  const batches: { id: string }[] = [];
  for (let index = 0; index < 21; index++) batches.push(await files.submitBatch(file));
  const { body } = await keys.account('user:watched');
  const shown = body.batches as { id: string }[]; // a response of the service itself
  t.deepEqual(
    shown.map(({ id }) => id),
    batches
      .map(({ id }) => id)
      .toSorted()
      .reverse()
      .slice(0, 20),
  );
  const ownersOnly = ['errors', 'metadata'];
  const ownersView = Object.keys(batches[0] ?? {}).filter((field) => !ownersOnly.includes(field));
  t.deepEqual(Object.keys(shown[0] ?? {}).toSorted(), ['account', ...ownersView].toSorted());
});

test('requests for files and batches count against no limit and get no limit headers', async (t) => {
  const { client, file } = await openBatchClient('free-of-charge');
  const before = (await keys.send('GET', '/billing/quota', { bearer: await keys.token('free-of-charge') })).body;
  const { response } = await client.batches.create({ ...batchOptions, input_file_id: file }).withResponse();
  t.deepEqual(
    [...response.headers.keys()].filter((name) => /^x-(svc|ratelimit)/.test(name)),
    [],
  );
  t.deepEqual((await keys.send('GET', '/billing/quota', { bearer: await keys.token('free-of-charge') })).body, before);
});
