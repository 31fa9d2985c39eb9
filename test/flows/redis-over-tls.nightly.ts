import { join } from 'node:path';
import test from 'ava';
import { freePort } from '../stack/free-port.ts';
import { startRedisCluster } from '../stack/redis-cluster.ts';
import { allRights, clusterRights } from '../stack/redis-rights.ts';
import { startRedis } from '../stack/redis-server.ts';
import { refusalsOf } from '../stack/stack-redis.ts';
import { makeCertificate } from '../support/certificates.ts';
import { login, openDirectory, serves, user } from '../support/redis-with-user.ts';

/** A certificate for 127.0.0.1, as settings of Redis, and the environment of processes that trust it. */
async function createCertificate(directory: string) {
  const { certFile: cert, keyFile: key } = await makeCertificate(directory, 'redis');
  const files = { 'tls-cert-file': cert, 'tls-key-file': key, 'tls-ca-cert-file': cert };
  return { settings: { ...files, 'tls-auth-clients': 'no' }, env: { NODE_EXTRA_CA_CERTS: cert } };
}

test.serial('one Redis over TLS, with a user', async (t) => {
  const directory = await openDirectory(t);
  const { settings, env } = await createCertificate(directory);
  const port = await freePort();
  const own = { ...settings, 'tls-port': String(port), user: user(allRights) };
  await using server = await startRedis({ directory: join(directory, 'redis'), settings: own });
  await serves(t, { redisUrl: `rediss://${login}127.0.0.1:${port}`, env });
  t.deepEqual(await refusalsOf(server.port), []);
});

test.serial('a cluster over TLS, with a user', async (t) => {
  const directory = await openDirectory(t);
  const { settings: files, env } = await createCertificate(directory);
  const tls = { ...files, 'tls-cluster': 'yes' }; // otherwise nodes announce their ports without TLS
  const rights = [...allRights, ...clusterRights];
  const settings = { user: user(rights) };
  await using cluster = await startRedisCluster({ directory, replicasEach: 0, settings, tls });
  const ports = await Promise.all(
    cluster.nodes.map(async ({ redis }) => (await redis.config('GET', 'tls-port')).at(1)),
  );
  const hosts = ports.map((port) => `127.0.0.1:${port}`).join(',');
  await serves(t, { redisUrl: `rediss+cluster://${login}${hosts}`, env });
  const refusals = await Promise.all(cluster.nodes.map(({ port }) => refusalsOf(port)));
  t.deepEqual(refusals.flat(), []);
});
