import test from 'ava';
import { batchOf, resultOf } from '../batch-records.ts';
import { testBatchesContract, testBatchRacesContract } from '../batches-contract.ts';
import { testLineRacesContract, testLinesContract } from '../lines-contract.ts';
import { testRoomRacesContract, testRoomsContract } from '../rooms-contract.ts';
import { createSqliteHome } from '../sqlite-home.ts';

testBatchesContract({ test, createHome: createSqliteHome });
testLinesContract({ test, createHome: createSqliteHome });
testRoomsContract({ test, createHome: createSqliteHome });
// Tests with many calls block this process, and would keep concurrent tests from releasing a lock in time.
testBatchRacesContract({ test: test.serial, createHome: createSqliteHome });
testLineRacesContract({ test: test.serial, createHome: createSqliteHome });
testRoomRacesContract({ test: test.serial, createHome: createSqliteHome });

test.serial('the process is not blocked while thousands of lines are written, listed and removed', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  const { id } = batchOf();
  const results = Array.from({ length: 10_000 }, (_, index) => resultOf(id, index + 1));
  t.true((await turnsDuring(() => store.batches.insertResults(results))) >= 100);
  t.true((await turnsDuring(() => store.batches.listEndedLines(id, 1))) >= 5);
  t.true((await turnsDuring(() => store.batches.listResults(id, { after: 0, limit: 10_000 }))) >= 100);
  t.true((await turnsDuring(() => store.batches.removeResults(id, 10_000))) >= 100);
  t.deepEqual(await store.batches.countResults(id), { completed: 0, failed: 0 });
});

/** How often this process could do something else in the meantime. */
async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let isOver = false;
  const count = () => {
    if (isOver) return;
    turns += 1;
    setImmediate(count);
  };
  setImmediate(count);
  await work();
  isOver = true;
  return turns;
}
