import test from 'ava';
import { ulid } from 'ulid';
import { openMongoStore } from '../../../../shared/store/mongo/mongo-store.ts';
import { openMongoTests } from '../../../support/mongodb/mongo-tests.ts';
import { patientLimits } from '../../../support/mongodb/open-patient-store.ts';
import { urlThrough } from '../../../support/mongodb/start-mongo.ts';
import { untilItWorks } from '../../../support/mongodb/until-it-works.ts';
import { startTcpProxy } from '../../../support/tcp-proxy.ts';
import { inChunks } from '../file-bytes.ts';
import { testFilesContract, testLargeFilesContract } from '../files-contract.ts';
import { failsWith } from '../store-contract.ts';

const { mongoTest, mongoTestAlone, createHome } = await openMongoTests(test);

testFilesContract({ test: mongoTest, createHome });
testLargeFilesContract({ test: mongoTestAlone, createHome });

const newFile = () => `file-${ulid()}`;
const bytes = Buffer.alloc(2_000_000, 'some bytes');

for (const mode of ['refuse', 'black hole'] as const) {
  mongoTest(
    `losing the server during a write (${mode}) fails the write before it is back, and leaves nothing`,
    async (t) => {
      await using home = await createHome();
      await using proxy = await home.startProxy('pass');
      await using store = home.openThrough(proxy);
      await using other = await home.open();
      await untilItWorks(() => store.ping());
      const id = newFile();
      let isLost = false;
      async function* source() {
        for await (const chunk of inChunks(bytes, [100_000])) {
          yield chunk;
          if (isLost || (await home.countPieces()) < 3) continue;
          isLost = true;
          proxy.become(mode);
        }
      }
      await failsWith(t, 'SERVICE_UNAVAILABLE', store.files.write(id, source()));
      t.true(isLost);
      t.is(await other.files.read(id, 0, 10), undefined);
      t.true((await home.countPieces()) > 0);
      await other.files.remove(id);
      t.is(await home.countPieces(), 0);

      proxy.become('pass');
      t.is(await other.files.write(id, inChunks(bytes, [100_000])), bytes.length);
    },
  );
}

mongoTest('a file whose removal has begun is not created, even if the removal never ends', async (t) => {
  await using home = await createHome();
  await using store = await home.open();
  await using proxy = await startTcpProxy(home.primary);
  await using cut = openMongoStore(urlThrough(proxy.port, home.url), { log: { warn() {} }, limits: patientLimits });
  await untilItWorks(() => cut.ping());
  const id = newFile();
  async function* source() {
    yield* inChunks(bytes, [100_000]);
    const reached = proxy.holdBefore('file_bytes.files');
    const removing = failsWith(t, 'SERVICE_UNAVAILABLE', cut.files.remove(id));
    await reached;
    await cut[Symbol.asyncDispose]();
    await removing;
  }
  await failsWith(t, 'SERVICE_UNAVAILABLE', store.files.write(id, source()));
  t.is(await store.files.read(id, 0, 10), undefined);
  t.is(await home.countPieces(), 0);
});

for (const gone of [0, 3]) {
  mongoTest(`a file whose chunks from number ${gone} on are missing is not read as a shorter file`, async (t) => {
    await using home = await createHome();
    await using store = await home.open();
    const id = newFile();
    await store.files.write(id, inChunks(bytes, [100_000]));
    await home.database.collection('file_bytes.chunks').deleteMany({ n: { $gte: gone } });
    await failsWith(t, 'SERVICE_UNAVAILABLE', store.files.read(id, 0, bytes.length));
  });
}

mongoTest('a file is in GridFS under its id, readable by common tools', async (t) => {
  await using home = await createHome();
  await using store = await home.open();
  const id = newFile();
  await store.files.write(id, inChunks(bytes, [100_001]));
  const [file, ...others] = await home.database.collection('file_bytes.files').find().toArray();
  t.like(file, { filename: id, length: bytes.length, chunkSize: 261_120 });
  t.deepEqual(others, []);
  t.deepEqual(await home.indexes('file_bytes.chunks'), [
    { key: { files_id: 1, n: 1 }, unique: true, sparse: undefined },
  ]);
  t.deepEqual(await home.indexes('file_versions'), [
    { key: { file: 1, number: 1 }, unique: undefined, sparse: undefined },
  ]);
});
