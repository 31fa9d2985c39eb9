import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { MongoClient } from 'mongodb';
import { freePort } from '../../stack/free-port.ts';
import { spawnServer } from './server-process.ts';

const run = promisify(execFile);
const startMsMax = 60_000;

/** mongod does not watch its standard input, so a shell does. Its data is discarded, so it need not stop cleanly. */
const untilInputEnds = 'mongod "$@" & server=$!; cat >/dev/null; kill -9 "$server"; wait "$server"';

/** Whether a `mongod` is on the path. */
export async function hasMongod(): Promise<boolean> {
  return run('mongod', ['--version']).then(
    () => true,
    () => false,
  );
}

/** The `mongod` on the path as a replica set of one member, with its data in a temporary folder. */
export async function startMongod(): Promise<{ url: string; stop: () => Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'mongod-'));
  const logFile = join(folder, 'log');
  const port = await freePort();
  const args = ['--replSet', 'rs0', '--dbpath', folder, '--port', String(port), '--bind_ip', '127.0.0.1'];
  const server = spawnServer('sh', ['-c', untilInputEnds, 'mongod', ...args, '--logpath', logFile]);
  const stop = async () => {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await initiate(port);
    return { url: `mongodb://127.0.0.1:${port}/?replicaSet=rs0`, stop };
  } catch (error) {
    const log = await readFile(logFile, 'utf8').catch(() => '');
    await stop();
    throw new Error(`mongod did not start: ${log.slice(-4_000)}`, { cause: error });
  }
}

async function initiate(port: number): Promise<void> {
  const host = `127.0.0.1:${port}`;
  const patience = { serverSelectionTimeoutMS: startMsMax };
  const member = new MongoClient(`mongodb://${host}/?directConnection=true`, patience);
  try {
    await member.db('admin').command({ replSetInitiate: { _id: 'rs0', members: [{ _id: 0, host }] } });
  } finally {
    await member.close();
  }
  const replicaSet = new MongoClient(`mongodb://${host}/?replicaSet=rs0`, patience);
  try {
    await replicaSet.db('admin').command({ ping: 1 }); // only a primary answers it, so it waits for the election
  } finally {
    await replicaSet.close();
  }
}
