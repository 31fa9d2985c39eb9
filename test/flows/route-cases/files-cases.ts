import { ulid } from 'ulid';
import { batchClaim } from '../../../ingress/middleware/idempotency.ts';
import { type Batch, resultIdOf } from '../../../shared/batches/batch.ts';
import type { Route } from '../../support/documented-answers.ts';
import { createFileClient, line } from '../../support/file-client.ts';
import { createFurtherKeyClient } from '../../support/further-key-client.ts';
import { contentType, file, multipart, purpose } from '../../support/multipart.ts';
import { storedBatch, storedFile } from '../../support/stored-batch.ts';
import {
  as,
  bodyBytesMax,
  type Case,
  conflict,
  fieldCases,
  forbidden,
  invalid,
  limited,
  mismatch,
  notFound,
  ok,
  tooLarge,
} from './case.ts';
import type { Cast, CastParts } from './open-cases.ts';

/** The plan of an account with no room for batches. */
export const filePlans = { 'one-token-waiting': { batch_tokens_waiting: 1, model_tiers: ['guest'] } };
/** Large enough that the uploads and batches of these tests do not reach them. */
const accountBytesMax = 100_000_000;
const accountFilesMax = 60;
/** Limits in the plan file. */
export const filesOfTests = {
  file_bytes_max: bodyBytesMax,
  account_bytes_max: accountBytesMax,
  account_files_max: accountFilesMax,
  requests_max: 5,
};

/** Files and batches in each state that routes distinguish. */
export async function createFileCast({ stack, keys, store }: CastParts) {
  const owner = 'user:filer';
  const fileKey = await keys.newKey('filer');
  await keys.change(owner, { plan: 'pro' });
  const files = createFileClient(stack, fileKey);
  const further = createFurtherKeyClient(keys, 'filer');
  const crowdedKey = await keys.newKey('crowded');
  await keys.change('user:crowded', { plan: 'one-token-waiting' });
  const hoarderKey = await keys.newKey('hoarder');
  const hoard = storedFile('user:hoarder', { purpose: 'batch_output', bytes: accountBytesMax });
  await store.batches.insertFile(hoard);
  const hoardedInput = storedFile('user:hoarder');
  await store.batches.insertFile(hoardedInput);
  const collectorKey = await keys.newKey('collector');
  const collection = Array.from({ length: accountFilesMax }, () => storedFile('user:collector', { bytes: 1 }));
  await Promise.all(collection.map((one) => store.batches.insertFile(one)));
  // Its one line waits for a pool without workers.
  const inputFile = (await files.upload(line('a', { model: 'large-chat' }))).id;
  const runningBatch = (await files.submitBatch(inputFile)).id;

  const output = storedFile(owner, { purpose: 'batch_output', filename: 'out.jsonl' });
  const hidden = (['writing', 'deleting'] as const).map((state) => storedFile(owner, { state }));
  for (const one of [output, ...hidden]) await store.batches.insertFile(one);
  const cancelling = storedBatch(owner, { state: 'cancelling', ending: 'cancelled', cancellingAt: new Date() });
  const over = (['finalizing', 'failed', 'completed', 'expired', 'cancelled'] as const).map((state) =>
    storedBatch(owner, { state }),
  );
  for (const batch of [cancelling, ...over]) await store.batches.insertBatch(batch);
  /** An ended batch of this account, with files in which its line has failed. */
  const failed = async (account: string, change: Partial<Batch> = {}) => {
    const batch = storedBatch(account, { inputFile: storedFile(account).id, ...change });
    const files = [storedFile(account, { id: batch.inputFile }), storedFile(account)];
    const ended = { id: resultIdOf(batch.id, 1), error: { code: 'UPSTREAMS_EXHAUSTED' } };
    const texts = [line('failed'), JSON.stringify(ended)];
    for (const [index, file] of files.entries()) {
      await store.batches.insertFile(file);
      await store.files.write(file.id, bytesOf(texts[index] ?? ''));
    }
    await store.batches.insertBatch({ ...batch, errorFile: files[1]?.id ?? '' });
    return { batch: batch.id, files: files.map(({ id }) => id) };
  };
  const fileless = await failed(owner);
  for (const id of fileless.files) await store.batches.removeFile(id);
  const usedKey = 'the-first-one';
  const claim = batchClaim({ account: owner, idempotencyKey: usedKey });
  await store.batches.insertBatch(storedBatch(owner, { state: 'completed', open: false }), claim);
  return {
    fileKey,
    filelessKey: (await further.create({ files: 'none' })).key,
    readingKey: (await further.create({ files: 'read' })).key,
    ownFilesKey: (await further.create({ models: ['small-chat'] })).key,
    fileToken: await keys.token('filer'),
    crowdedKey,
    hoarderKey,
    collectorKey,
    collectedFile: collection[0]?.id ?? '',
    hoardedFile: hoardedInput.id,
    inputFile,
    keptFile: (await files.upload(line('b'))).id,
    fileToDelete: (await files.upload(line('c'))).id,
    outputFile: output.id,
    hiddenFiles: hidden.map(({ id }) => id),
    crowdedFile: (await createFileClient(stack, crowdedKey).upload(line('e'))).id,
    runningBatch,
    cancellingBatch: cancelling.id,
    batchesOver: over.map(({ id }) => id),
    failedBatch: (await failed(owner)).batch,
    filelessBatch: fileless.batch,
    crowdedBatch: (await failed('user:crowded')).batch,
    hoardedBatch: (await failed('user:hoarder')).batch,
    collectedBatch: (await failed('user:collector')).batch,
    usedKey,
  };
}

const readsOnly = 'This API key may read the files and batches of other keys, and not change them.';

/** What is special to the routes of files and batches. */
export function filesCases(cast: Cast): Record<Route, Case[]> {
  const mine = as(cast.fileKey);
  const kept = `/v1/files/${cast.keptFile}`;
  const cancelling = `/v1/batches/${cast.cancellingBatch}`;
  return {
    'POST /v1/files': uploadCases(cast),
    'GET /v1/files': [
      ...listCases('/v1/files', cast, 'file-'),
      ok('of one purpose', mine('GET /v1/files?purpose=batch_output'), {
        data: { length: 1, 0: { id: cast.outputFile } },
      }),
      ok('the oldest first', mine('GET /v1/files?order=asc&limit=1'), { data: [{ id: cast.inputFile }] }),
    ],
    'GET /v1/files/:file': [
      ...foreignFileCases('GET', '', cast),
      ok('a key', mine(`GET ${kept}`)),
      ok('a sign-in token', as(cast.fileToken)(`GET ${kept}`)),
      ok('results', mine(`GET /v1/files/${cast.outputFile}`)),
    ],
    'GET /v1/files/:file/content': [
      ...foreignFileCases('GET', '/content', cast),
      ok('a key', mine(`GET ${kept}/content`), JSON.parse(line('b'))),
    ],
    'DELETE /v1/files/:file': [
      ...foreignFileCases('DELETE', '', cast),
      conflict('the input of an unfinished batch', mine(`DELETE /v1/files/${cast.inputFile}`)),
      forbidden("another key's, to read", as(cast.readingKey)(`DELETE ${kept}`), readsOnly),
      ok('a key', mine(`DELETE /v1/files/${cast.fileToDelete}`), { id: cast.fileToDelete, deleted: true }),
    ],
    'POST /v1/batches': createBatchCases(cast),
    'GET /v1/batches': listCases('/v1/batches', cast, 'batch_'),
    'GET /v1/batches/:batch': [
      ...foreignCases(`GET ${cancelling}`, cast),
      ...[cast.runningBatch, ...cast.batchesOver].map((id) => ok('a key', mine(`GET /v1/batches/${id}`))),
    ],
    'POST /v1/batches/:batch/retry': retryCases(cast),
    'POST /v1/batches/:batch/cancel': [
      ...foreignCases(`POST ${cancelling}/cancel`, cast),
      forbidden("another key's, to read", as(cast.readingKey)(`POST ${cancelling}/cancel`), readsOnly),
      ok('a batch that is being cancelled', mine(`POST ${cancelling}/cancel`)),
      ...cast.batchesOver.map((id) => conflict('a finished batch', mine(`POST /v1/batches/${id}/cancel`))),
    ],
    ...operatorBatchCases(cast),
  };
}

/** What is wrong with forms is tested with their reader. */
function uploadCases(cast: Cast): Case[] {
  const good = multipart([purpose, file(line('a'))]);
  const upload = (form: Buffer, bearer = cast.fileKey) => as(bearer)('POST /v1/files', form, contentType());
  const of = (text: string) => upload(multipart([purpose, file(text)]));
  const isFull = `may have ${accountFilesMax} files, with 2 for each unfinished batch. Delete some of them`;
  return [
    ok('a key', upload(good), { purpose: 'batch', filename: 'in.jsonl' }),
    ok('a sign-in token', upload(good, cast.fileToken)),
    ok('content that is not JSON', of('{"a":')),
    ok('the maximum number of lines', of('a\n'.repeat(5))),
    invalid('one line too many', of('a\n'.repeat(6)), 'file: line 6: a file has at most 5 lines'),
    invalid('an empty file', of(''), 'file: is empty'),
    tooLarge('a file', of('x'.repeat(bodyBytesMax + 1))),
    tooLarge('no room for more bytes', upload(good, cast.hoarderKey), `may have ${accountBytesMax} bytes. Delete`),
    conflict('no room for more files', upload(good, cast.collectorKey), isFull),
  ];
}

/** Of what other accounts, and other keys of the account, have. */
function foreignCases(request: string, cast: Cast): Case[] {
  return [
    notFound("another's", as(cast.anothersKey)(request)),
    notFound("another key's", as(cast.ownFilesKey)(request)),
  ];
}

function foreignFileCases(method: string, suffix: string, cast: Cast): Case[] {
  const gone = [`file-${ulid()}`, cast.keptFile.toLowerCase(), ...cast.hiddenFiles];
  return [
    ...foreignCases(`${method} /v1/files/${cast.keptFile}${suffix}`, cast),
    ...gone.map((id) => notFound(`the file ${id}`, as(cast.fileKey)(`${method} /v1/files/${id}${suffix}`))),
  ];
}

function listCases(path: string, cast: Cast, idPrefix: string): Case[] {
  const list = (query = '', bearer = cast.fileKey) => as(bearer)(`GET ${path}${query}`);
  const none = { data: { length: 0 }, has_more: false, first_id: null };
  return [
    ok('a key that has made none', list('', cast.ownFilesKey), none),
    ok('an account without any', list('', cast.anothersKey), none),
    ok('all', list(), { has_more: false }),
    ok('one', list('?limit=1'), { data: { length: 1 }, has_more: true }),
    ok('after an unknown id', list(`?after=${idPrefix}${'0'.repeat(26)}`), none),
  ];
}

const pairs = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, 'v']));

function retryCases(cast: Cast): Case[] {
  const retry = (batch: string, body: object = {}, bearer = cast.fileKey, ...lines: string[]) =>
    as(bearer)(`POST /v1/batches/${batch}/retry`, body, ...lines);
  const made = { status: 'validating', retry_of: cast.failedBatch, input_filename: `${cast.failedBatch}_retry.jsonl` };
  const [, failed, completed] = cast.batchesOver;
  return [
    notFound("another's", retry(cast.failedBatch, {}, cast.anothersKey), 'no such batch'),
    notFound("another key's", retry(cast.failedBatch, {}, cast.ownFilesKey), 'no such batch'),
    notFound('an unknown one', retry('batch_1'), 'no such batch'),
    ok('a key', retry(cast.failedBatch), made),
    ok('a sign-in token', retry(cast.failedBatch, { lines: 'all' }, cast.fileToken), made),
    ok('an idempotency key', retry(cast.failedBatch, {}, cast.fileKey, 'Idempotency-Key: again'), made),
    mismatch('the key of another batch', retry(cast.failedBatch, {}, cast.fileKey, `Idempotency-Key: ${cast.usedKey}`)),
    invalid('no such line', retry(cast.failedBatch, { lines: 'unfinished' }), 'lines: no line of this batch was left'),
    ...[failed, completed].map((id = '') => invalid('a batch without failed lines', retry(id), 'has failed')),
    invalid('other lines', retry(cast.failedBatch, { lines: 'some' }), 'lines'),
    notFound('files that are gone', retry(cast.filelessBatch), 'was deleted'),
    conflict('a batch that runs', retry(cast.runningBatch), 'has not ended'),
    conflict('a batch that is being cancelled', retry(cast.cancellingBatch), 'has not ended'),
    limited('no room for its tokens', retry(cast.crowdedBatch, {}, cast.crowdedKey), 'batch_limit'),
    tooLarge(
      'no room for its file',
      retry(cast.hoardedBatch, {}, cast.hoarderKey),
      `may have ${accountBytesMax} bytes`,
    ),
    conflict('too many files', retry(cast.collectedBatch, {}, cast.collectorKey), `may have ${accountFilesMax} files`),
  ];
}

async function* bytesOf(text: string) {
  yield Buffer.from(text);
}

function createBatchCases(cast: Cast): Case[] {
  const right = { endpoint: '/v1/chat/completions', completion_window: '24h', input_file_id: cast.inputFile };
  const create = (change: object, bearer = cast.fileKey) => as(bearer)('POST /v1/batches', { ...right, ...change });
  const of = (input_file_id: string, bearer: string) => create({ input_file_id }, bearer);
  const noTokens = { error: { type: 'batch_limit', retry_after_ms: 60_000 } };
  const keyed = (key: string) => as(cast.fileKey)('POST /v1/batches', right, `Idempotency-Key: ${key}`);
  const noFile = 'input_file_id: there is no such file';
  const endsAfter = (seconds: number, anchor = 'created_at') => ({ anchor, seconds });
  const named = (name: string) => ({ [name]: 'v' });
  return [
    ok('the file of another key', create({}, cast.readingKey)),
    ok('a key', create({}), { status: 'validating', metadata: null, errors: null }),
    ok('a sign-in token', create({ metadata: null }, cast.fileToken)),
    ok('an idempotency key', keyed('nightly')),
    mismatch('the key of another batch', keyed(cast.usedKey)),
    ok('the largest metadata', create({ metadata: { ...pairs(15), ['ü'.repeat(64)]: 'x'.repeat(512) } })),
    ok('results that expire', create({ output_expires_after: endsAfter(3_600) })),
    ok('results that expire as usual', create({ output_expires_after: null })),
    limited('no room for its tokens', of(cast.crowdedFile, cast.crowdedKey), noTokens),
    tooLarge('no room for its results', of(cast.hoardedFile, cast.hoarderKey), `may have ${accountBytesMax} bytes`),
    conflict('no room for its files', of(cast.collectedFile, cast.collectorKey), `may have ${accountFilesMax} files`),
    invalid("another's file", create({}, cast.anothersKey), noFile),
    invalid("another key's file", create({}, cast.ownFilesKey), noFile),
    ...fieldCases(create, {
      [noFile]: [`file-${ulid()}`, 'x', '', '__proto__', ...cast.hiddenFiles],
      'input_file_id: expected a file of the purpose': [cast.outputFile],
      'endpoint: ': ['/v1/messages'],
      'output_expires_after.seconds: ': [endsAfter(3_599)],
      'output_expires_after.seconds: expected 3600 to 2592000 seconds': [endsAfter(1e9)],
      'output_expires_after.anchor: ': [endsAfter(3_600, 'now')],
      'metadata.a: ': [{ a: 1 }, { a: 'x'.repeat(513) }],
      'metadata: expected at most 16 pairs': [pairs(17)],
      metadata: [...['', 'x'.repeat(65), 'a\0b', '\ud800'].map(named), JSON.parse('{"__proto__":"x"}')],
    }),
  ];
}

function operatorBatchCases(cast: Cast): Record<Route, Case[]> {
  const list = (query = '', account = 'user:filer') =>
    as(cast.operator)(`GET /admin/accounts/${account}/batches${query}`);
  const cancel = (id: string) => as(cast.operator)(`POST /admin/batches/${id}/cancel`, { reason: 'why' });
  return {
    'GET /admin/accounts/:account/batches': [
      ok('an account', list('?limit=1'), { data: [{ account: 'user:filer' }], has_more: true }),
      ok('an account without any', list('', 'user:alice'), { data: { length: 0 }, has_more: false }),
      ok('an account without a document', list('', 'user:lines-only'), { data: { length: 0 } }),
    ],
    'GET /admin/batches/:batch': [cast.cancellingBatch, ...cast.batchesOver].map((id) =>
      ok(`the batch ${id}`, as(cast.operator)(`GET /admin/batches/${id}`), { id, account: 'user:filer' }),
    ),
    'POST /admin/batches/:batch/cancel': [
      ok('a batch that is being cancelled', cancel(cast.cancellingBatch), { status: 'cancelling' }),
      ...cast.batchesOver.map((id) => conflict(`the finished batch ${id}`, cancel(id), 'cannot be cancelled')),
    ],
  };
}
