import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import test, { type ExecutionContext } from 'ava';
import { freePort } from '../stack/free-port.ts';
import { startRedisCluster } from '../stack/redis-cluster.ts';
import { allRights, clusterRights, replyRights, sentinelRights, userSetting } from '../stack/redis-rights.ts';
import { startRedisSentinel } from '../stack/redis-sentinel.ts';
import { startRedis } from '../stack/redis-server.ts';
import { type StackOptions, startStack } from '../stack/stack.ts';
import { refusalsOf } from '../stack/stack-redis.ts';
import { linesOf, openBatchClient } from '../support/batch-client.ts';
import { chat, streamedText, wholeText } from '../support/chat.ts';
import { createKeyClient } from '../support/key-client.ts';

const password = 'p@ss:word,1/2';
const login = `service:${encodeURIComponent(password)}@`;
const user = (commands: readonly string[]) => userSetting(commands, password);

async function openDirectory(t: ExecutionContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'redis-addresses-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

/** A certificate for 127.0.0.1, as settings of Redis, and the environment of processes that trust it. */
async function createCertificate(directory: string) {
  const [cert, key] = [join(directory, 'cert.pem'), join(directory, 'key.pem')];
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  const name = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'];
  await promisify(execFile)('openssl', ['req', '-x509', ...curve, '-days', '2', ...name, '-keyout', key, '-out', cert]);
  const files = { 'tls-cert-file': cert, 'tls-key-file': key, 'tls-ca-cert-file': cert };
  return { settings: { ...files, 'tls-auth-clients': 'no' }, env: { NODE_EXTRA_CA_CERTS: cert } };
}

/** Whole answers, streams, revocation and a batch over the Redis of these addresses. */
async function serves(t: ExecutionContext, options: StackOptions): Promise<void> {
  await using stack = await startStack({ ingresses: 2, workers: 2, ...options });
  const keys = createKeyClient(stack);
  const key = await keys.newKey('alice');
  for (const { url } of stack.ingresses) {
    t.regex(await wholeText(await chat({ url, key, question: 'Hello?' })), /Hello/);
    t.regex(streamedText(await (await chat({ url, key, question: 'Hello?', stream: true })).text()), /Hello/);
  }
  const batches = await openBatchClient(stack, 'bob');
  const { id } = await batches.create(linesOf(5));
  const ended = await batches.ended(id);
  t.is(ended.status, 'completed');
  t.is((await batches.lines(ended)).length, 5);
  t.is((await keys.revoke('alice', key)).status, 200);
  for (const { url } of stack.ingresses) t.is((await chat({ url, key, question: 'Hello?' })).status, 401);
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

test.serial('Sentinel, with a user of Redis and one of the sentinels', async (t) => {
  const directory = await openDirectory(t);
  const watcher = ['on', '>watch', 'resetchannels', '-@all', ...sentinelRights.map((command) => `+${command}`)];
  await using sentinel = await startRedisSentinel({
    ...{ directory, settings: { user: user(allRights) } },
    sentinelLines: [`user watcher ${watcher.join(' ')}`],
  });
  const address = sentinel.url.replace('://', `://${login}`);
  await serves(t, { redisUrl: `${address}?sentinel_username=watcher&sentinel_password=watch` });
  const users = ['service', 'watcher'];
  const all = [...sentinel.servers, ...sentinel.sentinels];
  const refusals = await Promise.all(all.map(({ port }) => refusalsOf(port, users)));
  t.deepEqual(refusals.flat(), []);
});

test.serial('answers on another Redis, whose user has only the rights for them', async (t) => {
  const directory = await openDirectory(t);
  await using replies = await startRedis({ directory, settings: { user: user(replyRights) } });
  await serves(t, { env: { REPLY_REDIS_URL: replies.url.replace('://', `://${login}`) } });
  t.deepEqual(await refusalsOf(replies.port), []);
});

test.serial('answers on a cluster, and everything else on one Redis', async (t) => {
  const directory = await openDirectory(t);
  const settings = { user: user([...replyRights, ...clusterRights]) };
  await using cluster = await startRedisCluster({ directory, replicasEach: 0, settings });
  await serves(t, { env: { REPLY_REDIS_URL: cluster.url.replace('://', `://${login}`) } });
  const refusals = await Promise.all(cluster.nodes.map(({ port }) => refusalsOf(port)));
  t.deepEqual(refusals.flat(), []);
});
