import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import type { CheckpointMessage } from './durable-commits.ts';

// A thread: it takes what stands in the write-ahead log into the database file, and waits for the disk where nobody waits for it.
const database = new DatabaseSync(workerData as string); // the file, as whoever started this thread gave it
database.exec('PRAGMA synchronous = FULL');
const checkpoint = database.prepare('PRAGMA wal_checkpoint(PASSIVE)');

parentPort?.on('message', (asked: CheckpointMessage) => {
  if (asked === 'checkpoint') {
    checkpoint.get(); // where another process does the same, it says so and nothing is lost
    return;
  }
  database.close();
  parentPort?.close();
});
