import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import type { StoredFile } from '../../../../shared/batches/batch.ts';
import { startFileRemoval } from '../../../../workers/batches/files/start-file-removal.ts';
import { batchOf, fileOf } from '../../../shared/store/batch-records.ts';
import { createSqliteHome } from '../../../shared/store/sqlite-home.ts';
import { recordedLog } from '../../../support/recorded-log.ts';

const now = Date.UTC(2030, 4, 15);
const hourMs = 3_600_000;

async function open(t: ExecutionContext, { isHeld = true } = {}) {
  const home = await createSqliteHome();
  const store = await home.open();
  const { log, lines } = recordedLog();
  t.teardown(() => home[Symbol.asyncDispose]());
  t.teardown(() => store[Symbol.asyncDispose]());

  return {
    store,
    lines,
    async file(given: Partial<StoredFile>): Promise<string> {
      const file = fileOf({ createdAt: new Date(now - 10 * hourMs), expiresAt: new Date(now + 1), ...given });
      await store.batches.insertFile(file);
      await store.files.write(file.id, bytes());
      return file.id;
    },
    /** Lets the removal run this many times. */
    async remove(times = 1, at = now): Promise<void> {
      let runs = 0;
      const acquireLock = async () => {
        runs++;
        return isHeld;
      };
      await using _removing = startFileRemoval({ store, acquireLock, now: async () => at, log, everyMs: 5 });
      while (runs <= times) await sleep(2);
    },
    async exists(id: string): Promise<boolean> {
      const [known, read] = await Promise.all([store.batches.findFile(id), store.files.read(id, 0, 1)]);
      if ((known === undefined) !== (read === undefined)) t.fail('only one of the file’s record and its bytes exists');
      return known !== undefined;
    },
  };
}

async function* bytes(): AsyncGenerator<Uint8Array> {
  yield Buffer.from('a line\n');
}

test('a file is removed when it expires, and not before', async (t) => {
  const side = await open(t);
  const [over, left] = [
    await side.file({ expiresAt: new Date(now) }),
    await side.file({ expiresAt: new Date(now + 1) }),
  ];
  await side.remove();
  t.false(await side.exists(over));
  t.true(await side.exists(left));
});

test('a deletion that was not completed is completed', async (t) => {
  const side = await open(t);
  const file = await side.file({ state: 'deleting' });
  await side.remove();
  t.false(await side.exists(file));
});

test('the input of a batch stays until the batch is over', async (t) => {
  const side = await open(t);
  const [expired, deleting] = [await side.file({ expiresAt: new Date(now) }), await side.file({ state: 'deleting' })];
  const batches = [expired, deleting].map((inputFile) => batchOf({ inputFile }));
  for (const batch of batches) await side.store.batches.insertBatch(batch);
  await side.remove();
  t.is((await side.store.batches.findFile(expired))?.state, 'ready');
  t.is((await side.store.batches.findFile(deleting))?.state, 'ready', 'it can be read again');
  for (const { id } of batches) {
    await side.store.batches.changeBatch(id, (found) => ({
      result: undefined,
      ...(found && { next: { ...found, state: 'completed' as const } }),
    }));
  }
  await side.remove();
  t.true(await side.exists(expired), 'it was checked a moment ago');
  await side.remove(1, now + hourMs);
  t.false(await side.exists(expired));
});

test('a file that was started more than an hour ago and is not complete is removed', async (t) => {
  const side = await open(t);
  const old = await side.file({ state: 'writing', createdAt: new Date(now - hourMs - 1) });
  const young = await side.file({ state: 'writing', createdAt: new Date(now - hourMs + 1) });
  await side.remove();
  t.false(await side.exists(old));
  t.true(await side.exists(young));
});

test('a file that is completed during the check stays', async (t) => {
  const side = await open(t);
  const file = await side.file({ state: 'writing', createdAt: new Date(now - 2 * hourMs) });
  const { listFilesToRemove } = side.store.batches;
  side.store.batches.listFilesToRemove = async (...given) => {
    const due = await listFilesToRemove.apply(side.store.batches, given);
    await side.store.batches.changeFile(file, 'writing', { state: 'ready' });
    return due;
  };
  await side.remove();
  t.true(await side.exists(file));
  t.is((await side.store.batches.findFile(file))?.state, 'ready');
});

test('removes more files than fit in one run', async (t) => {
  const side = await open(t);
  const files: string[] = [];
  for (let count = 0; count < 130; count++) files.push(await side.file({ expiresAt: new Date(now) }));
  await side.remove(3);
  for (const file of files) t.false(await side.exists(file));
});

test('a worker without the lock removes nothing', async (t) => {
  const side = await open(t, { isHeld: false });
  const file = await side.file({ expiresAt: new Date(now) });
  await side.remove(3);
  t.true(await side.exists(file));
});

test('tries again when the store is unavailable, and logs that', async (t) => {
  const side = await open(t);
  const file = await side.file({ expiresAt: new Date(now) });
  const { listFilesToRemove } = side.store.batches;
  side.store.batches.listFilesToRemove = () => {
    side.store.batches.listFilesToRemove = listFilesToRemove;
    return Promise.reject(new Error('away'));
  };
  await side.remove(2);
  t.false(await side.exists(file));
  t.is(side.lines.filter(({ level }) => level === 'warn').length, 1);
});
