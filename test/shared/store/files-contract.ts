import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { ExecutionContext } from 'ava';
import { ulid } from 'ulid';
import { ApiError } from '../../../shared/errors.ts';
import type { FileStore } from '../../../shared/store/file-store.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { seededRandom } from '../../support/random.ts';
import { breakingOff, inChunks } from './file-bytes.ts';
import { type Contract, failsWith, provesOnStore, type StoreHome } from './store-contract.ts';

const writer = fileURLToPath(new URL('write-file-from-process.ts', import.meta.url));
const MiB = 1_048_576;
const oddSizes = [1, 300_001, 65_537, 0, 7, 261_120, 262_143];

/** The guarantees of every store for the bytes of files. */
export function testFilesContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('a file is read as it was written, and gone after it was removed', keepsBytes);
  prove('an empty file exists', keepsEmpty);
  prove('only a file id reaches stored bytes', refusesNames);
  prove('a failing source fails the write with its own error, and leaves nothing', leavesNothing);
  prove('a file keeps its bytes until another write is complete', keepsUntilWhole);
  prove('a file that is removed during its write is not created', removesWhileWritten);
  prove('closing the store during a write fails the write', failsWhenClosed);
}

/** The same with large or concurrent files, for serial tests. */
export function testLargeFilesContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove(
    '20 MiB in pieces of odd sizes are read back by ranges, byte for byte, and never held in memory completely',
    keepsLarge,
  );
  prove('of two concurrent writes of one file one succeeds, and nothing of the other is left', writesOnce);
  prove('a reader during a rewrite gets all of the old bytes or all of the new ones', readsWhole);
  prove(
    'a process that is killed during a write leaves nothing to read, and nothing after the file is removed',
    survivesKill,
  );
}

const newFile = () => `file-${ulid()}`;
const write = (files: FileStore, id: string, bytes: Buffer) => files.write(id, inChunks(bytes, oddSizes));

async function keepsBytes(t: ExecutionContext, { files }: Store, home: StoreHome): Promise<void> {
  const [id, other, bytes] = [newFile(), newFile(), randomBytes(MiB)];
  t.is(await files.read(id, 0, 10), undefined);
  await files.remove(id);
  t.is(await write(files, id, bytes), bytes.length);
  t.is(await files.write(other, inChunks(Buffer.from('another'), [3])), 7);
  t.true(bytes.equals(await readAll(files, id)));
  t.is(Buffer.from(await readAll(files, other)).toString(), 'another');
  await using beside = await home.open();
  t.true(bytes.equals(await readAll(beside.files, id)));

  await files.remove(id);
  await files.remove(id);
  t.is(await files.read(id, 0, 10), undefined);
  t.is(Buffer.from(await readAll(files, other)).toString(), 'another');
  await files.remove(other);
  t.is(await home.countPieces(), 0);
}

async function keepsEmpty(t: ExecutionContext, { files }: Store, home: StoreHome): Promise<void> {
  const id = newFile();
  t.is(await write(files, id, Buffer.alloc(0)), 0);
  t.is((await files.read(id, 0, 10))?.length, 0);
  await files.remove(id);
  t.is(await files.read(id, 0, 10), undefined);
  t.is(await home.countPieces(), 0);
}

async function refusesNames(t: ExecutionContext, { files }: Store, home: StoreHome): Promise<void> {
  const id = newFile();
  await write(files, id, Buffer.from('kept'));
  const pieces = await home.countPieces();
  const names = [
    '',
    '.',
    '..',
    '../store.db',
    'store.db',
    '/etc/passwd',
    `${id}/../${id}`,
    `./${id}`,
    `${id}.part`,
    `${id}\0`,
    `${id}\n`,
    id.toLowerCase(),
    id.slice(0, -1),
    `${id}0`,
    `${id.slice(0, -1)}U`,
    'file-',
    `batch_${id.slice(5)}`,
    '*',
    '$ne',
  ];
  for (const name of names) {
    t.is(await files.read(name, 0, 10), undefined, name);
    await files.remove(name);
    const error = await t.throwsAsync(write(files, name, Buffer.from('no')), { message: /not a file id/ }, name);
    t.false(error instanceof ApiError, 'an internal error, not an outage');
  }
  t.is(await home.countPieces(), pieces);
  t.is(Buffer.from(await readAll(files, id)).toString(), 'kept');
}

async function leavesNothing(t: ExecutionContext, { files }: Store, home: StoreHome): Promise<void> {
  const [id, bytes] = [newFile(), randomBytes(2 * MiB)];
  for (const after of [0, 1, MiB]) {
    const error = new Error('the client has disconnected');
    const failure = await t.throwsAsync(files.write(id, breakingOff(inChunks(bytes, oddSizes), after, error)));
    t.is(failure, error);
    t.is(await files.read(id, 0, 10), undefined);
    t.is(await home.countPieces(), 0, `after ${after} bytes`);
  }
}

async function keepsUntilWhole(t: ExecutionContext, { files }: Store, home: StoreHome): Promise<void> {
  const [id, first, second] = [newFile(), randomBytes(MiB), randomBytes(MiB)];
  await write(files, id, first);
  const pieces = await home.countPieces();
  const error = new Error('the client has disconnected');
  await t.throwsAsync(files.write(id, breakingOff(inChunks(second, oddSizes), MiB / 2, error)), { is: error });
  t.true(first.equals(await readAll(files, id)));

  await files.write(id, whileReading(inChunks(second, oddSizes)));
  t.true(second.equals(await readAll(files, id)));
  t.is(await home.countPieces(), pieces, 'nothing is left of the old bytes');
  await files.remove(id);
  t.is(await home.countPieces(), 0);

  async function* whileReading(chunks: AsyncIterable<Uint8Array>) {
    for await (const chunk of chunks) {
      yield chunk;
      t.true(first.equals(await readAll(files, id)));
    }
  }
}

async function removesWhileWritten(t: ExecutionContext, { files }: Store, home: StoreHome): Promise<void> {
  const [id, bytes] = [newFile(), randomBytes(2 * MiB)];
  await failsWith(t, 'SERVICE_UNAVAILABLE', files.write(id, removedHalfway(inChunks(bytes, oddSizes))));
  t.is(await files.read(id, 0, 10), undefined);
  t.is(await home.countPieces(), 0);

  async function* removedHalfway(chunks: AsyncIterable<Uint8Array>) {
    let left = 6;
    for await (const chunk of chunks) {
      yield chunk;
      left -= 1;
      if (left === 0) await files.remove(id);
    }
  }
}

async function failsWhenClosed(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  const [id, bytes] = [newFile(), randomBytes(2 * MiB)];
  await failsWith(t, 'SERVICE_UNAVAILABLE', store.files.write(id, closingHalfway(inChunks(bytes, oddSizes))));
  await using other = await home.open();
  t.is(await other.files.read(id, 0, 10), undefined);
  await other.files.remove(id);
  t.is(await home.countPieces(), 0);

  async function* closingHalfway(chunks: AsyncIterable<Uint8Array>) {
    let left = 6;
    for await (const chunk of chunks) {
      yield chunk;
      left -= 1;
      if (left === 0) await store[Symbol.asyncDispose]();
    }
  }
}

async function keepsLarge(t: ExecutionContext, { files }: Store): Promise<void> {
  const [id, bytes] = [newFile(), randomBytes(20 * MiB)];
  const memory = watchMemory();
  t.is(await files.write(id, memory.watched(inChunks(bytes, oddSizes))), bytes.length);
  t.log(`at most ${(memory.mostBytes() / MiB).toFixed(1)} MiB more in memory while 20 MiB were written`);
  t.true(memory.mostBytes() < 10 * MiB);

  const random = seededRandom(20);
  const below = (most: number) => Math.floor(random.between(0, most));
  const boundaries = [1, 2, 40, 79].flatMap((number) => [number * 261_120, number * 262_144]);
  const ranges = [
    ...boundaries.flatMap((at) => [at - 1, at, at + 1].map((from) => ({ from, count: 3 }))),
    ...boundaries.map((at) => ({ from: at - 500_000, count: 1_000_001 })).filter(({ from }) => from >= 0),
    ...Array.from({ length: 40 }, () => ({ from: below(bytes.length), count: below(700_000) })),
    { from: bytes.length - 1, count: 10 },
    { from: bytes.length, count: 10 },
    { from: bytes.length + 1_000_000, count: 10 },
    { from: 0, count: 0 },
    { from: 0, count: 2 * bytes.length },
  ];
  for (const { from, count } of ranges) {
    const read = await files.read(id, from, count);
    t.true(read !== undefined && bytes.subarray(from, from + count).equals(read), `${count} bytes from ${from}`);
  }
  await files.remove(id);
  t.is(await files.read(id, 0, 1), undefined);
}

/** The most memory in use after any MiB, minus that before the first. Garbage is collected before each measurement. */
function watchMemory() {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  const held = () => {
    if (typeof collect === 'function') collect();
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  const before = held();
  let mostBytes = 0;
  return {
    mostBytes: () => mostBytes,
    async *watched(chunks: AsyncIterable<Uint8Array>) {
      let written = 0;
      for await (const chunk of chunks) {
        yield chunk;
        written += chunk.length;
        if (written < MiB) continue;
        written = 0;
        mostBytes = Math.max(mostBytes, held() - before);
      }
    },
  };
}

async function writesOnce(t: ExecutionContext, one: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  await write(one.files, newFile(), randomBytes(MiB));
  const alone = await home.countPieces();
  const id = newFile();
  for (let round = 0; round < 10; round += 1) {
    const written = [randomBytes(MiB), randomBytes(MiB), randomBytes(MiB)];
    await Promise.all(written.map((bytes, index) => write((index % 2 === 0 ? one : other).files, id, bytes)));
    const read = await readAll(other.files, id);
    t.is(written.filter((bytes) => bytes.equals(read)).length, 1);
    t.is(await home.countPieces(), 2 * alone);
  }
  const last = randomBytes(MiB);
  await write(other.files, id, last);
  t.true(last.equals(await readAll(one.files, id)), 'the later one is kept');
}

async function readsWhole(t: ExecutionContext, one: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  const [id, versions] = [newFile(), [randomBytes(9 * MiB), randomBytes(9 * MiB)]]; // more than one call reads
  await write(one.files, id, versions[0] ?? Buffer.alloc(0));
  let writing = true;
  let reads = 0;
  const reading = (async () => {
    for (; writing; reads += 1) {
      const read = (await other.files.read(id, 0, 9 * MiB)) ?? Buffer.alloc(0);
      t.is(versions.filter((bytes) => bytes.equals(read)).length, 1);
    }
  })();
  try {
    for (let round = 1; round <= 10; round += 1) await write(one.files, id, versions[round % 2] ?? Buffer.alloc(0));
  } finally {
    writing = false;
    await reading;
  }
  t.true(reads > 3);
}

async function survivesKill(t: ExecutionContext, { files }: Store, home: StoreHome): Promise<void> {
  for (const bytes of [0, 700_000, 3_000_000]) {
    const id = newFile();
    const child = spawn(process.execPath, [writer, home.url, id], { stdio: ['ignore', 'pipe', 'inherit'] });
    const exited = once(child, 'exit');
    for await (const line of createInterface({ input: child.stdout })) if (Number(line) >= bytes) child.kill('SIGKILL');
    t.is((await exited)[1], 'SIGKILL');

    t.is(await files.read(id, 0, 10), undefined);
    t.true((await home.countPieces()) > 0, 'the write had started');
    await files.remove(id);
    t.is(await home.countPieces(), 0);
  }
}

/** Reads in blocks of an odd size, as a streaming reader does. */
async function readAll(files: FileStore, id: string): Promise<Uint8Array> {
  const blocks: Uint8Array[] = [];
  for (let from = 0; ; from += blocks.at(-1)?.length ?? 0) {
    const block = await files.read(id, from, 300_007);
    if (block === undefined) throw new Error('there is no such file');
    blocks.push(block);
    if (block.length < 300_007) return Buffer.concat(blocks);
  }
}
