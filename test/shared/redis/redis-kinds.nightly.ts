import { spawn } from 'node:child_process';
import { once } from 'node:events';
import test from 'ava';
import { connectForRequests } from '../../../shared/redis/connections.ts';
import { waitForRedis } from '../../../shared/redis/wait-for-redis.ts';
import { freePort } from '../../stack/free-port.ts';
import { provideOldRedis } from '../../suite/redis-kinds.ts';
import { recordedLog } from '../../support/recorded-log.ts';

test('a Redis before 7 ends the start with its version, because it cannot run the scripts', async (t) => {
  t.timeout(600_000);
  const port = await freePort();
  const settings = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--maxmemory-policy', 'noeviction'];
  const server = spawn(await provideOldRedis(), settings, { stdio: 'ignore' });
  t.teardown(async () => {
    server.kill('SIGKILL');
    if (server.exitCode === null && server.signalCode === null) await once(server, 'exit');
  });
  const redis = connectForRequests(`redis://127.0.0.1:${port}`, recordedLog().log);
  t.teardown(() => redis.disconnect());
  const starting = waitForRedis([redis], { signal: AbortSignal.timeout(60_000), log: recordedLog().log });
  await t.throwsAsync(starting, {
    name: 'StartError',
    message: /has the version 6\.2\.14 and cannot run .*Use Redis 7 or later/,
  });
});
