import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { headersOf } from '../../../shared/fleet/ask-backend.ts';
import { followBackendKeys } from '../../../shared/fleet/backend-keys.ts';
import { fileIssuesOf } from '../../../shared/plan-file/backend-files.ts';
import type { Backend } from '../../../shared/plan-file/plan-file.ts';

const common = { url: 'https://a/v1', location: 'cloud' } as const;

async function open(t: ExecutionContext) {
  const folder = await mkdtemp(join(tmpdir(), 'keys-'));
  t.teardown(() => rm(folder, { recursive: true }));
  const file = join(folder, 'key');
  const backend: Backend = { ...common, apiKeyFile: file };
  const unreadable: string[] = [];
  const keys = followBackendKeys({
    variableOf: (name) => (name === 'CLOUD_API_KEY' ? 'key of the variable' : undefined),
    backends: () => ({ cloud: backend }),
    onUnreadable: (of, error) => unreadable.push(`${of}: ${(error as Error).message}`),
  });
  t.teardown(() => keys[Symbol.dispose]());
  return { folder, file, keys, backend, unreadable };
}

test('a key is in a variable or in a file, without the white space around it', async (t) => {
  const { file, keys, backend } = await open(t);
  await writeFile(file, ' first-key\n');
  t.is(keys.of(backend), 'first-key');
  t.is(keys.of({ apiKeyEnv: 'CLOUD_API_KEY' }), 'key of the variable');
  t.is(keys.of({ apiKeyEnv: 'OTHER' }), undefined);
  t.deepEqual([{ apiKeyEnv: 'OTHER' }, { apiKeyEnv: 'CLOUD_API_KEY' }, backend, {}].map(keys.lacks), [
    ...[true, false, false, false],
  ]);
  t.is(keys.of({}), undefined);
});

test('a new key is used once it was read twice, and the earlier one while the file cannot be used', async (t) => {
  const { folder, file, keys, backend, unreadable } = await open(t);
  await writeFile(file, 'first-key');
  t.is(keys.of(backend), 'first-key');
  await writeFile(file, 'second');
  await keys.look();
  t.is(keys.of(backend), 'first-key', 'it may be half written');
  await writeFile(file, 'second-key');
  await keys.look();
  t.is(keys.of(backend), 'first-key');
  await keys.look();
  t.is(keys.of(backend), 'second-key');
  await writeFile(file, '');
  await keys.look();
  await keys.look();
  await rm(file);
  await keys.look();
  t.is(keys.of(backend), 'second-key');
  t.deepEqual(unreadable, [`${file}: is empty`], 'reported once');
  await writeFile(join(folder, 'other'), 'third-key');
  await symlink(join(folder, 'other'), file);
  await keys.look();
  await keys.look();
  t.is(keys.of(backend), 'third-key');
});

test('a file that was never readable gives no key, until it is', async (t) => {
  const { file, keys, backend, unreadable } = await open(t);
  t.is(keys.of(backend), undefined);
  await keys.look();
  t.is(unreadable.length, 1);
  await writeFile(file, 'late-key');
  await keys.look();
  await keys.look();
  t.is(keys.of(backend), 'late-key');
});

test('files of keys that cannot be used are issues, without a word of the file', async (t) => {
  const { folder, file } = await open(t);
  const issuesOf = (apiKeyFile: string) => fileIssuesOf({ backends: { cloud: { ...common, apiKeyFile } } });
  const issue = (of: string, message: string) => [
    { path: 'backends.cloud.api_key_file', message: `${of}: ${message}` },
  ];
  t.deepEqual(issuesOf(file), issue(file, 'cannot be read (ENOENT)'));
  t.deepEqual(issuesOf(folder), issue(folder, 'is not a regular file'));
  for (const [text, message] of [
    ['\n', 'is empty'],
    ['two words', 'has more than one word, or characters that no header may have'],
    ['k\r\nhost: other', 'has more than one word, or characters that no header may have'],
    ['schlüssel', 'has more than one word, or characters that no header may have'],
    ['k'.repeat(8_193), 'is larger than 8192 bytes'],
  ] as const) {
    await writeFile(file, text);
    t.deepEqual(issuesOf(file), issue(file, message));
  }
  await writeFile(file, 'k'.repeat(8_192));
  t.deepEqual(issuesOf(file), []);
});

test('a key is sent in the header of the backend, beside its fixed headers', (t) => {
  t.deepEqual(headersOf(common, 'k1'), { authorization: 'Bearer k1' });
  t.deepEqual(headersOf({ ...common, apiKeyHeader: 'api-key' }, 'k1'), { 'api-key': 'k1' });
  t.deepEqual(headersOf({ ...common, apiKeyHeader: 'x-api-key', headers: { 'x-team': 'a b' } }, 'k1'), {
    'x-api-key': 'k1',
    'x-team': 'a b',
  });
  t.deepEqual(headersOf({ ...common, headers: { 'x-team': 'a' } }, undefined), { 'x-team': 'a' });
});
