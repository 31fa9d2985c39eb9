import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import type { CheckpointMessage } from './durable-commits.ts';

// A thread: it copies the write-ahead log into the database file. So its waits for the disk block no request.
const database = new DatabaseSync(workerData as string); // the file, set by the code that started this thread
database.exec('PRAGMA synchronous = FULL');
const checkpoint = database.prepare('PRAGMA wal_checkpoint(PASSIVE)');

parentPort?.on('message', (asked: CheckpointMessage) => {
  if (asked === 'checkpoint') {
    checkpoint.get(); // if another process is making a checkpoint, this one reports that and nothing is lost
    return;
  }
  database.close();
  parentPort?.close();
});
