import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import test from 'ava';
import { greetStore, openStore } from '../../../../shared/process/open-store.ts';
import { buildGo, buildMs, missingFor, providePackages } from '../../../clients/provide-client.ts';
import { freePort } from '../../../stack/free-port.ts';
import { recordedLog } from '../../../support/recorded-log.ts';
import { skipTest } from '../../../support/skip-test.ts';

const source = fileURLToPath(new URL('../../../support/mongodb/FerretServer.go', import.meta.url));
const title = 'FerretDB, which loses updates, ends the start with the reason';
const reason = missingFor('go');

if (reason !== undefined) skipTest(test, { title, reason });
else
  test(title, async (t) => {
    t.timeout(buildMs);
    const folder = await mkdtemp(join(tmpdir(), 'ferretdb-'));
    t.teardown(() => rm(folder, { recursive: true, force: true }));
    const packages = await providePackages('go', { 'github.com/FerretDB/FerretDB': '1.24.0' });
    await copyFile(source, join(folder, 'main.go'));
    await buildGo(folder, packages);
    await mkdir(join(folder, 'data'));
    const address = `127.0.0.1:${await freePort()}`;
    const server = spawn(join(folder, 'client'), [address, join(folder, 'data')], { stdio: 'ignore' });
    t.teardown(async () => {
      server.kill('SIGKILL');
      if (server.exitCode === null && server.signalCode === null) await once(server, 'exit');
    });

    const url = `mongodb://${address}/inference`;
    const { log, lines } = recordedLog();
    await using store = await openStore(url, { log });
    const start = async () => {
      lines.length = 0;
      await greetStore(store, url, log);
      if (lines.some(({ message }) => message.includes('cannot be used'))) await start(); // it does not listen yet
    };
    await t.throwsAsync(start(), {
      name: 'StartError',
      message:
        /^DATABASE_URL: the store at 127\.0\.0\.1:\d+: the server does not update documents atomically: of 50 updates/,
    });
  });
