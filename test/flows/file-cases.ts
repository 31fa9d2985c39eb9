import { ulid } from 'ulid';
import { batchClaim } from '../../ingress/middleware/idempotency.ts';
import type { Store } from '../../shared/store/records/store.ts';
import type { Stack } from '../stack/stack.ts';
import { createFileClient, line } from '../support/file-client.ts';
import { createFurtherKeyClient } from '../support/further-key-client.ts';
import type { KeyClient } from '../support/key-client.ts';
import { boundary, contentType, file, multipart, type Part, purpose } from '../support/multipart.ts';
import { storedBatch, storedFile } from '../support/stored-batch.ts';
import {
  bodyBytesMax,
  bodyCases,
  type Call,
  type Case,
  type Credentials,
  callTo,
  conflict,
  eitherCases,
  forbidden,
  invalid,
  limited,
  mismatch,
  notFound,
  ok,
  tooLarge,
  unsupported,
} from './common-cases.ts';

/** The plan of an account with no room for batches. */
export const filePlans = { 'one-token-waiting': { batch_tokens_waiting: 1, model_tiers: ['guest'] } };
/** Large enough that the uploads of these tests do not reach it. */
const accountBytesMax = 100_000_000;
const accountFilesMax = 40;
/** Limits in the plan file. */
export const filesOfTests = {
  file_bytes_max: bodyBytesMax,
  account_bytes_max: accountBytesMax,
  account_files_max: accountFilesMax,
  requests_max: 5,
};

export type FileCast = Awaited<ReturnType<typeof createFileCast>>;
type Cast = Credentials & FileCast & { guestKey: string; anothersKey: string };

/** Files and batches in each state that routes distinguish. */
export async function createFileCast({ stack, keys, store }: { stack: Stack; keys: KeyClient; store: Store }) {
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
    filesToDelete: [(await files.upload(line('c'))).id, (await files.upload(line('d'))).id],
    outputFile: output.id,
    hiddenFiles: hidden.map(({ id }) => id),
    crowdedFile: (await createFileClient(stack, crowdedKey).upload(line('e'))).id,
    runningBatch,
    cancellingBatch: cancelling.id,
    batchesOver: over.map(({ id }) => id),
    usedKey,
  };
}

const good = [purpose, file(line('a'))];
const noFiles = { says: 'This API key may use no files and no batches.' };
const readsOnly = { says: 'This API key may read the files and batches of other keys, and not change them.' };

function formCases(cast: Cast): Case[] {
  const call = callTo('POST', '/v1/files');
  const as = (parts: readonly Part[], bearer = cast.fileKey) =>
    call({ bearer, type: contentType(), body: multipart(parts) });
  const typed = (type: string, ...lines: string[]) =>
    call({ bearer: cast.fileKey, type, lines, body: multipart(good) });
  const of = (text: string) => as([purpose, file(text)]);
  return [
    ...eitherCases((request) => call({ type: contentType(), ...request }), cast, multipart(good)),
    forbidden('a guest key', as(good, cast.guestKey), { says: 'Guest keys have no files' }),
    forbidden('a key without files', as(good, cast.filelessKey), noFiles),
    ok('a key', as(good), { check: (t, body) => void t.like(body, { purpose: 'batch', filename: 'in.jsonl' }) }),
    ok('a sign-in token', as(good, cast.fileToken)),
    ok('the file first', as([...good].reverse())),
    ok('content that is not JSON', of('{"a":')),
    ok('the maximum number of lines', of('a\n'.repeat(5))),
    ok('a boundary in quotes', typed(contentType(`"${boundary}"`))),
    invalid('one line too many', of('a\n'.repeat(6)), { says: 'file: line 6: a file has at most 5 lines' }),
    invalid('an empty file', of(''), { says: 'file: is empty' }),
    invalid('no purpose', as([file('a')]), { says: 'purpose: is required' }),
    invalid('another purpose', as([{ name: 'purpose', body: 'vision' }, file('a')]), { says: 'purpose: expected' }),
    invalid('no file', as([purpose]), { says: 'file: is required' }),
    invalid('an unknown field', as([{ name: 'x', body: '' }, ...good]), { says: 'x: is not known' }),
    invalid('no boundary', typed('Content-Type: multipart/form-data'), { says: 'expected a boundary' }),
    invalid('another boundary', typed(contentType('x')), { says: 'up to its last boundary' }),
    invalid('a boundary that is too long', typed(contentType('x'.repeat(71))), { says: 'expected a boundary' }),
    invalid('nothing', call({ bearer: cast.fileKey, type: contentType(), body: '' }), { says: 'last boundary' }),
    tooLarge('a file', as([purpose, file('x'.repeat(bodyBytesMax + 1))])),
    conflict('more files than an account may have', as(good, cast.collectorKey), {
      says: `may have ${accountFilesMax} files, with 2 for each unfinished batch. Delete some of them`,
    }),
    tooLarge('more bytes than an account may have', as(good, cast.hoarderKey), {
      says: `may have ${accountBytesMax} bytes. Delete some of them`,
    }),
    tooLarge('by its length', call({ bearer: cast.fileKey, lines: [contentType(), 'Content-Length: 131073'] })),
    tooLarge(
      'around a file',
      as([purpose, { name: 'x', body: '' }, file('a'), { head: [], body: 'x'.repeat(140_000) }]),
    ),
    unsupported('no type', typed('')),
    unsupported('JSON', typed('Content-Type: application/json')),
    unsupported('another multipart type', typed(`Content-Type: multipart/mixed; boundary=${boundary}`)),
    unsupported('two types', typed(contentType(), contentType())),
    unsupported('compressed', typed(contentType(), 'Content-Encoding: gzip')),
  ];
}

/** Files that do not exist for the caller. */
function missingCases(
  method: string,
  pathOf: (id: string) => string,
  cast: Cast & { ids: Record<string, string> },
): Case[] {
  return Object.entries(cast.ids).map(([title, id]) =>
    notFound(title, callTo(method, pathOf(id))({ bearer: cast.fileKey })),
  );
}

const malformedIds = {
  'a broken escape': '%zz',
  'a path': '..%2F..',
  prototype: '__proto__',
  'a query': '%24ne',
  'a long name': 'x'.repeat(5_000),
};

function fileCasesOf(method: string, suffix: string, cast: Cast): Case[] {
  const pathOf = (id: string) => `/v1/files/${id}${suffix}`;
  const call = callTo(method, pathOf(cast.keptFile));
  const [writing = '', deleting = ''] = cast.hiddenFiles;
  const ids = {
    ...malformedIds,
    unknown: `file-${ulid()}`,
    'in lower case': cast.keptFile.toLowerCase(),
    writing,
    deleting,
  };
  return [
    ...eitherCases(call, cast),
    forbidden('a guest key', call({ bearer: cast.guestKey })),
    forbidden('a key without files', call({ bearer: cast.filelessKey }), noFiles),
    notFound("another's", call({ bearer: cast.anothersKey })),
    notFound("another key's", call({ bearer: cast.ownFilesKey })),
    ...missingCases(method, pathOf, { ...cast, ids }),
  ];
}

function batchCasesOf(method: string, suffix: string, cast: Cast): Case[] {
  const pathOf = (id: string) => `/v1/batches/${id}${suffix}`;
  const call = callTo(method, pathOf(cast.cancellingBatch));
  const ids = { ...malformedIds, unknown: `batch_${ulid()}`, 'a file': cast.inputFile };
  return [
    ...eitherCases(call, cast),
    forbidden('a guest key', call({ bearer: cast.guestKey })),
    forbidden('a key without files', call({ bearer: cast.filelessKey }), noFiles),
    notFound("another's", call({ bearer: cast.anothersKey })),
    notFound("another key's", call({ bearer: cast.ownFilesKey })),
    ...missingCases(method, pathOf, { ...cast, ids }),
  ];
}

function listCases(path: string, cast: Cast, { most, after }: { most: number; after: string }): Case[] {
  const call = callTo('GET', path);
  const as = (query: string) => callTo('GET', `${path}?${query}`)({ bearer: cast.fileKey });
  const none = { check: (t, body) => void t.like(body, { data: [], has_more: false, first_id: null }) } satisfies Pick<
    Case,
    'check'
  >;
  return [
    ...eitherCases(call, cast),
    forbidden('a guest key', call({ bearer: cast.guestKey })),
    forbidden('a key without files', call({ bearer: cast.filelessKey }), noFiles),
    ok('a key that has made none', call({ bearer: cast.ownFilesKey }), none),
    ok('a key', call({ bearer: cast.fileKey })),
    ok('a sign-in token', call({ bearer: cast.fileToken })),
    ok('an account without any', call({ bearer: cast.anothersKey }), none),
    ok('one', as('limit=1'), { check: (t, body) => void t.like(body, { data: { length: 1 }, has_more: true }) }),
    ok('the maximum', as(`limit=${most}`)),
    ok('after an unknown id', as(`after=${after}${'0'.repeat(26)}`), none),
    invalid('too many', as(`limit=${most + 1}`), { says: `limit: expected a whole number from 1 to ${most}` }),
    invalid('after a malformed id', as('after=x'), { says: 'after: expected the id of a' }),
    invalid('an unknown parameter', as('before=x'), { says: 'before: is not known' }),
  ];
}

const batchOptions = { endpoint: '/v1/chat/completions', completion_window: '24h' };

function createCases(cast: Cast): Case[] {
  const call = callTo('POST', '/v1/batches');
  const right = { ...batchOptions, input_file_id: cast.inputFile };
  const as = (change: object, bearer = cast.fileKey) => call({ bearer, body: { ...right, ...change } });
  const pairs = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, 'v']));
  const noFile = { says: 'input_file_id: there is no such file' };
  return [
    ...eitherCases(call, cast, right),
    ...bodyCases(call, right, cast.fileKey),
    forbidden('a guest key', as({}, cast.guestKey)),
    forbidden('a key without files', as({}, cast.filelessKey), noFiles),
    ok('the file of another key', as({}, cast.readingKey)),
    invalid("another key's file", as({}, cast.ownFilesKey), noFile),
    ok('a key', as({}), {
      check: (t, body) => void t.like(body, { status: 'validating', metadata: null, errors: null }),
    }),
    ok('a sign-in token', as({ metadata: null }, cast.fileToken)),
    ok('an idempotency key', call({ bearer: cast.fileKey, body: right, lines: ['Idempotency-Key: nightly'] })),
    mismatch(
      'the key of another batch',
      call({ bearer: cast.fileKey, body: right, lines: [`Idempotency-Key: ${cast.usedKey}`] }),
    ),
    invalid(
      'an idempotency key with a space',
      call({ bearer: cast.fileKey, body: right, lines: ['Idempotency-Key: a b'] }),
      {
        says: 'idempotency-key: must be 1 to 255 visible ASCII characters',
      },
    ),
    ok('the largest metadata', as({ metadata: { ...pairs(15), ['ü'.repeat(64)]: 'x'.repeat(512) } })),
    limited('more tokens than there is room for', as({ input_file_id: cast.crowdedFile }, cast.crowdedKey), {
      check: (t, { error }) => void t.like(error, { type: 'batch_limit', retry_after_ms: 60_000 }),
    }),
    tooLarge('no room for its results', as({ input_file_id: cast.hoardedFile }, cast.hoarderKey), {
      says: `may have ${accountBytesMax} bytes`,
    }),
    conflict('no room for its files', as({ input_file_id: cast.collectedFile }, cast.collectorKey), {
      says: `may have ${accountFilesMax} files`,
    }),
    invalid("another's file", as({}, cast.anothersKey), noFile),
    ...[`file-${ulid()}`, 'x', '', '__proto__', ...cast.hiddenFiles].map((id) =>
      invalid(`an unknown file: ${id}`, as({ input_file_id: id }), noFile),
    ),
    invalid('results', as({ input_file_id: cast.outputFile }), {
      says: 'input_file_id: expected a file of the purpose',
    }),
    invalid('nothing', call({ bearer: cast.fileKey, body: {} }), {
      says: /input_file_id: .*endpoint: .*completion_window: /,
    }),
    invalid('another endpoint', as({ endpoint: '/v1/messages' }), { says: 'endpoint: ' }),
    invalid('another window', as({ completion_window: '48h' }), { says: 'completion_window: ' }),
    ok('results that expire', as({ output_expires_after: { anchor: 'created_at', seconds: 3_600 } })),
    ok('results that expire as usual', as({ output_expires_after: null })),
    invalid('results that expire too soon', as({ output_expires_after: { anchor: 'created_at', seconds: 3_599 } }), {
      says: 'output_expires_after.seconds: ',
    }),
    invalid('results that expire too late', as({ output_expires_after: { anchor: 'created_at', seconds: 1e9 } }), {
      says: 'output_expires_after.seconds: expected 3600 to 2592000 seconds',
    }),
    invalid(
      'results that expire after something else',
      as({ output_expires_after: { anchor: 'now', seconds: 3_600 } }),
      {
        says: 'output_expires_after.anchor: ',
      },
    ),
    invalid('an unknown field', as({ x: 1 }), { says: 'x: is not known' }),
    invalid('metadata that is a string', as({ metadata: 'x' }), { says: 'metadata: ' }),
    invalid('a number in metadata', as({ metadata: { a: 1 } }), { says: 'metadata.a: ' }),
    invalid('17 pairs', as({ metadata: pairs(17) }), { says: 'metadata: expected at most 16 pairs' }),
    invalid('a long value', as({ metadata: { a: 'x'.repeat(513) } }), { says: 'metadata.a: ' }),
    ...['', 'x'.repeat(65), 'a\0b', '\ud800'].map((name) =>
      invalid(`an invalid metadata name: ${JSON.stringify(name).slice(0, 20)}`, as({ metadata: { [name]: 'v' } }), {
        says: 'metadata',
      }),
    ),
    invalid(
      'metadata with a prototype',
      call({
        bearer: cast.fileKey,
        body: JSON.stringify({ ...right, metadata: 0 }).replace('"metadata":0', '"metadata":{"__proto__":"x"}'),
      }),
      { says: 'metadata' },
    ),
  ];
}

/** Each case except the deletions can be sent repeatedly. */
export function fileCases(cast: Cast) {
  const as = (method: string, path: string, bearer = cast.fileKey): ReturnType<Call> =>
    callTo(method, path)({ bearer });
  const [first = '', second = ''] = cast.filesToDelete;
  return {
    'POST /v1/files': formCases(cast),
    'GET /v1/files': [
      ...listCases('/v1/files', cast, { most: 10_000, after: 'file-' }),
      ok('of one purpose', as('GET', '/v1/files?purpose=batch_output'), {
        check: (t, body) => void t.like(body, { data: [{ id: cast.outputFile }], has_more: false }),
      }),
      ok('the oldest first', as('GET', '/v1/files?order=asc&limit=1'), {
        check: (t, body) => void t.like(body, { data: [{ id: cast.inputFile }] }),
      }),
      invalid('another purpose', as('GET', '/v1/files?purpose=vision'), { says: 'purpose: ' }),
      invalid('another order', as('GET', '/v1/files?order=up'), { says: 'order: ' }),
    ],
    'GET /v1/files/:file': [
      ...fileCasesOf('GET', '', cast),
      ok('a key', as('GET', `/v1/files/${cast.keptFile}`)),
      ok('a sign-in token', as('GET', `/v1/files/${cast.keptFile}`, cast.fileToken)),
      ok('results', as('GET', `/v1/files/${cast.outputFile}`)),
    ],
    'GET /v1/files/:file/content': [
      ...fileCasesOf('GET', '/content', cast),
      ok('a key', as('GET', `/v1/files/${cast.keptFile}/content`), {
        check: (t, body) => void t.like(body, JSON.parse(line('b'))),
      }),
      ok('a sign-in token', as('GET', `/v1/files/${cast.keptFile}/content`, cast.fileToken)),
    ],
    'DELETE /v1/files/:file': [
      ...fileCasesOf('DELETE', '', cast),
      conflict('the input of an unfinished batch', as('DELETE', `/v1/files/${cast.inputFile}`)),
      forbidden("another key's", as('DELETE', `/v1/files/${cast.keptFile}`, cast.readingKey), readsOnly),
      ok('a key', as('DELETE', `/v1/files/${first}`), {
        check: (t, body) => void t.deepEqual(body, { id: first, object: 'file', deleted: true }),
      }),
      ok('a sign-in token', as('DELETE', `/v1/files/${second}`, cast.fileToken)),
    ],
    'POST /v1/batches': createCases(cast),
    'GET /v1/batches': listCases('/v1/batches', cast, { most: 100, after: 'batch_' }),
    'GET /v1/batches/:batch': [
      ...batchCasesOf('GET', '', cast),
      ...[cast.runningBatch, ...cast.batchesOver].map((id) => ok('a key', as('GET', `/v1/batches/${id}`))),
      ok('a sign-in token', as('GET', `/v1/batches/${cast.runningBatch}`, cast.fileToken)),
    ],
    'POST /v1/batches/:batch/cancel': [
      ...batchCasesOf('POST', '/cancel', cast),
      forbidden("another key's", as('POST', `/v1/batches/${cast.cancellingBatch}/cancel`, cast.readingKey), readsOnly),
      ok('a batch that is being cancelled', as('POST', `/v1/batches/${cast.cancellingBatch}/cancel`)),
      ...cast.batchesOver.map((id) => conflict('a finished batch', as('POST', `/v1/batches/${id}/cancel`))),
    ],
  };
}
