import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { Redis } from 'ioredis';
import { answerFor } from '../stack/model-server.ts';
import { oneBackend } from '../stack/plan.ts';
import { type RedisServer, startRedis } from '../stack/redis-server.ts';
import { startServiceProcess } from '../stack/service-process.ts';
import { type RunningIngress, type Stack, startStack } from '../stack/stack.ts';
import {
  type Calls,
  callsOfStore,
  callsOfTheSeen,
  inferredStatus,
  type Outage,
  readinessOf,
  survivesOutage,
  untilReadiness,
} from '../support/calls-without-parts.ts';
import { chat, streamedText, wholeText } from '../support/chat.ts';
import { errorsIn } from '../support/errors-in.ts';
import { type Fault, faultTest } from '../support/faults/fault-test.ts';
import { shortOutage, tookNoHarm, weather } from '../support/faults/outage.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { scriptDescription } from '../support/script-description.ts';
import { addressIn, startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { openWitnesses, type Witnesses } from '../support/truth/open-witnesses.ts';

const question = 'Still there?';
const expected = answerFor([{ role: 'user', content: question }]);

const parts = new AsyncDisposableStack();
let stack: Stack;
let witnesses: Witnesses;
let keys: KeyClient;
/** The Redis of the replies. */
let replies: RedisServer;
/** The path of the second ingress to Redis. */
let proxy: TcpProxy;

test.before(async () => {
  const directory = await mkdtemp(join(tmpdir(), 'outages-'));
  parts.defer(() => rm(directory, { recursive: true, force: true }));
  replies = parts.use(await startRedis({ directory, settings: { user: 'limited on >only-for-replies ~* &* +@all' } }));
  const env = { REPLY_REDIS_URL: replies.url.replace('//', '//limited:only-for-replies@') };
  // Longer than a test waits, so what gets an answer has not waited for it.
  const timeouts = { queue_ms: 60_000 };
  stack = parts.use(await startStack({ workers: 2, models: oneBackend, timeouts, env }));
  proxy = parts.use(await startTcpProxy(addressIn(stack.redisUrl)));
  await stack.startIngress({ REDIS_URL: `redis://127.0.0.1:${proxy.port}` });
  witnesses = parts.use(await openWitnesses(stack));
  keys = createKeyClient(stack);
});
test.after.always(() => parts.disposeAsync());

const url = () => stack.ingresses[0]?.url ?? '';
const callsOfBackends = () => stack.modelServers.reduce((sum, server) => sum + server.calls().length, 0);

/** Both of Redis's servers. */
const allOfRedis = {
  kill: (signal: NodeJS.Signals) => Promise.all([stack.redis?.kill(signal), replies.kill(signal)]),
  restart: () => Promise.all([stack.redis?.restart(), replies.restart()]),
  /** Gives each server this command. */
  async each(run: (redis: Redis) => Promise<unknown>): Promise<void> {
    for (const address of [stack.redisUrl, replies.url]) {
      const redis = new Redis(address);
      await run(redis).finally(() => redis.disconnect());
    }
  },
};

// The first two come first: they require that all counts agree since the start.

faultTest(
  test.serial,
  {
    id: '8',
    done: 'Redis is killed (SIGKILL) with requests in flight, and restarted on its append-only file',
    promised:
      'new requests: 503 within a second or two; those in flight continue, without a second run; nothing is lost',
  },
  async (t, see) => {
    const [server] = stack.modelServers;
    server.fail({ latencyMs: 100, chunkMs: 80 });
    const weathered = await weather(t, see, {
      ...{ ...shortOutage, stack, witnesses },
      begin: () => allOfRedis.kill('SIGKILL'),
      end: () => allOfRedis.restart(),
    });
    server.heal();
    tookNoHarm(t, weathered);
  },
);

faultTest(
  test.serial,
  {
    id: '11',
    done: 'Redis is out of memory',
    promised:
      'requests in flight are answered; new requests get 503 immediately; keys are minted and revoked; freed memory is enough to recover',
  },
  async (t, see) => {
    const key = await stack.mintKey('erin');
    const [server] = stack.modelServers;
    const before = server.calls().length;
    server.fail({ untilHealed: true });
    const inFlight = [false, true].map((stream) => chat({ url: url(), key, question, stream }));
    while (server.calls().length < before + inFlight.length) await sleep(5);

    await allOfRedis.each((redis) => redis.config('SET', 'maxmemory', '1mb'));
    const refused = await chat({ url: url(), key, question, signal: AbortSignal.timeout(30_000) });
    t.is(refused.status, 503);
    t.truthy(refused.headers.get('retry-after'));
    const leaked = await keys.newKey('dora');
    const minted = await keys.models(leaked);
    t.is(minted.status, 200);
    t.is((await keys.revoke('dora', leaked)).status, 200);
    const revoked = await keys.models(leaked);
    t.is(revoked.status, 401);
    server.heal();
    const [whole, streamed] = await Promise.all(inFlight);
    const texts = [await wholeText(whole as Response), streamedText((await streamed?.text()) ?? '')];
    t.deepEqual(texts, [expected, expected]);
    t.is(server.calls().length, before + inFlight.length, 'no backend is called for a refused request');

    await allOfRedis.each((redis) => redis.config('SET', 'maxmemory', '0'));
    t.is(await wholeText(await chat({ url: url(), key, question })), expected);
    see(`${texts.length} of ${inFlight.length} in flight answered; a new request: ${refused.status}`);
    see(`a minted key: ${minted.status}, and revoked: ${revoked.status}`);
    const { records, contradictions } = await witnesses.agreeOn(t, []);
    see(`${records.size} records, ${contradictions.length} contradictions`);
  },
);

/** Only a repeated mint of a guest key, which takes no credential, needs no Redis. */
const isRepeat = (title: string) => title === 'guest mint, a repeat';
const withoutRedis = {
  answered: (at, cast) => only(callsOfStore(at, cast), isRepeat),
  unavailable: (at, cast) => ({
    ...only(callsOfStore(at, cast), (title) => !isRepeat(title)),
    ...callsOfTheSeen(at, cast),
    quota: () => at.send('GET', '/billing/quota', { bearer: cast.seen }),
  }),
  readiness: 503,
  /** A connection that stopped responding is replaced meanwhile. */
  times: 2,
} satisfies Partial<Outage>;

const isInference = (title: string) => title.startsWith('inference');

const outages: (Fault & Outage)[] = [
  {
    id: '9d',
    done: 'Redis is killed while keys are used and managed',
    promised: 'requests with a credential get 503 in time, and nothing changes',
    ...withoutRedis,
    begin: () => allOfRedis.kill('SIGKILL'),
    end: () => allOfRedis.restart(),
  },
  {
    id: '9e',
    done: 'Redis is frozen while keys are used and managed',
    promised: 'requests with a credential get 503 in time, and nothing changes',
    ...withoutRedis,
    begin: () => allOfRedis.kill('SIGSTOP'),
    end: () => allOfRedis.kill('SIGCONT'),
  },
  {
    id: '24h',
    done: 'the Redis of the replies (REPLY_REDIS_URL) is killed',
    promised:
      '/readyz 503; requests get an immediate 503, not charged, and no backend is called; served again when it is back',
    async begin() {
      await replies.kill('SIGKILL');
      for (const ingress of stack.ingresses) await untilReadiness(ingress, 503);
      callsBefore = callsOfBackends();
    },
    end: () => replies.restart(),
    answered: (at, cast) => only(callsOfTheSeen(at, cast), (title) => !isInference(title)),
    unavailable: (at, cast) => only(callsOfTheSeen(at, cast), isInference),
    readiness: 503,
    async meanwhile(t, at, { seen }) {
      t.is(callsOfBackends(), callsBefore, 'no backend is called');
      t.is((await at.send('GET', '/billing/quota', { bearer: seen })).body.reserved, 0);
    },
  },
];
let callsBefore = 0;

const only = (calls: Calls, isMeant: (title: string) => boolean): Calls =>
  Object.fromEntries(Object.entries(calls).filter(([title]) => isMeant(title)));

for (const { id, done, promised, ...outage } of outages) {
  faultTest(test.serial, { id, done, promised }, (t, see) =>
    survivesOutage(t, see, { stack, keys, name: id, ...outage }),
  );
}

const isChange = (title: string) =>
  /the first$|^(rotate|revoke|operator (suspends|changes)|account changes)/.test(title);

/** The SQLite file, opened a second time. */
let file: DatabaseSync;

for (const { title, name, ...outage } of [
  {
    title: 'while another process holds the lock of the SQLite file, reads continue and every change gets 503',
    name: 'locked',
    begin: () => file.exec('BEGIN IMMEDIATE'),
    end: () => file.exec('ROLLBACK'),
    answered: (at, cast) => ({
      ...callsOfTheSeen(at, cast),
      ...only(callsOfStore(at, cast), (call) => !isChange(call)),
    }),
    unavailable: (at, cast) => only(callsOfStore(at, cast), isChange),
  },
  {
    title:
      'with a damaged SQLite file known callers are served, all other calls get 503, and a repair needs no restart',
    name: 'damaged',
    begin: () => file.exec('ALTER TABLE accounts RENAME TO lost'),
    end: () => file.exec('ALTER TABLE lost RENAME TO accounts'),
    answered: callsOfTheSeen,
    // Usage has its own tables.
    unavailable: (at, cast) => only(callsOfStore(at, cast), (call) => call !== 'usage, a key'),
  },
] satisfies ({ title: string; name: string } & Outage)[]) {
  test.serial(title, async (t) => {
    file = new DatabaseSync(join(stack.directory, 'store.sqlite'), { timeout: 5_000 });
    t.teardown(() => file.close());
    await survivesOutage(t, t.log, { stack, keys, name, ...outage });
  });
}

/** An ingress sends the text of a script first on each connection, from then on its hash. */
const mark = scriptDescription('shared/account-changes/mark-change.lua');

for (const { hold, ...fault } of [
  {
    hold: () => proxy.holdBefore(mark),
    id: '10f',
    done: 'a change of a key loses Redis before it is marked',
    promised: '503; no key is changed, and the change can be repeated',
  },
  {
    hold: () => proxy.holdAfter(mark),
    id: '10g',
    done: 'Redis marks a change of a key and its reply is lost',
    promised: '503; no key is changed, and the change can be repeated',
  },
]) {
  faultTest(test.serial, fault, async (t, see) => {
    const [, behindProxy] = stack.ingresses;
    if (behindProxy === undefined) return t.fail();
    const throughProxy = createKeyClient(stack, { url: () => behindProxy.url });
    const changes = {
      rotate: (at: KeyClient, account: string, key: string) => at.rotate(account, key),
      revoke: (at: KeyClient, account: string, key: string) => at.revoke(account, key),
      mint: (at: KeyClient, account: string) => at.mint(account),
    };
    const statuses: [number, number][] = [];
    for (const [name, change] of Object.entries(changes)) {
      const account = `${fault.id}-${name}`;
      const key = name === 'mint' ? '' : await keys.newKey(account);
      const states = async () => (await keys.list(account)).map(({ state }) => state);
      const before = await states();
      await reconnect(behindProxy);
      const held = hold();
      const lost = change(throughProxy, account, key);
      await held;
      const refused = await lost;
      t.like(refused, { status: 503, body: { code: 'SERVICE_UNAVAILABLE' } }, name);
      t.deepEqual(await states(), before, name);
      if (key !== '') t.is((await keys.models(key)).status, 200, name);
      const again = await change(keys, account, key);
      t.is(again.status, 200, name);
      statuses.push([refused.status, again.status]);
      if (key !== '') t.is((await keys.models(key)).status, 401, name);
    }
    await reconnect(behindProxy);
    t.deepEqual(errorsIn(stack.ingresses), []);
    see(`changes, and when repeated: ${statuses.map((pair) => pair.join(', then ')).join('; ')}`);
  });
}

/** Its new connection has not loaded any script. */
async function reconnect(ingress: RunningIngress): Promise<void> {
  proxy.become('refuse');
  await untilReadiness(ingress, 503);
  proxy.become('pass');
  await untilReadiness(ingress, 200);
}

faultTest(
  test.serial,
  {
    id: '12b',
    done: 'Redis loses all data, three times',
    promised: 'every key is accepted or refused as before, at both ingresses',
  },
  async (t, see) => {
    const onA = createKeyClient(stack, { url });
    const onB = createKeyClient(stack, { url: () => stack.ingresses[1]?.url ?? '' });
    const rotated = await onA.newKey('rotated');
    const rotatedTo = String((await onA.rotate('rotated', rotated)).body.key);
    const revoked = await onA.newKey('revoked');
    await onA.revoke('revoked', revoked);
    const suspended = await onA.newKey('suspended');
    await onA.change('user:suspended', { suspended: true });
    const guest = String((await onA.guest('device-of-the-live')).body.key);
    const live = await onA.newKey('live');
    const statuses = new Map([
      [live, 200],
      [rotated, 401],
      [rotatedTo, 200],
      [revoked, 401],
      [suspended, 403],
      [guest, 200],
    ]);
    async function proves(when: string): Promise<void> {
      for (const [name, at] of Object.entries({ onA, onB })) {
        for (const [index, [key, status]] of [...statuses].entries()) {
          const about = `key ${index}, ${name}, ${when}`;
          t.is((await at.models(key)).status, status, about);
          t.is(await inferredStatus(at, key), status, about);
        }
      }
    }

    await proves('before');
    const empty = () => allOfRedis.each((redis) => redis.flushall().then(() => redis.script('FLUSH')));
    for (const time of ['once', 'twice']) {
      await empty();
      await proves(`emptied ${time}`);
    }
    await empty();
    const again = await onB.rotate('rotated', rotatedTo);
    await onB.change('user:suspended', { suspended: false });
    statuses.set(rotatedTo, 401).set(String(again.body.key), 200).set(suspended, 200);
    await proves('after changes at the other ingress');
    t.deepEqual((await onB.guest('device-of-the-live')).body.key, guest);
    t.deepEqual(errorsIn(stack.ingresses), []);
    see(`${statuses.size} keys at 2 ingresses: each as before, 3 times`);
  },
);

test.serial('an ingress that cannot receive replies is not ready, and becomes ready again when it can', async (t) => {
  const [ingress] = stack.ingresses;
  if (ingress === undefined) return t.fail();
  const redis = new Redis(replies.url);
  t.teardown(() => redis.disconnect());
  const key = await keys.newKey('waiting');
  t.is(await readinessOf(ingress), 200);
  await redis.call('ACL', 'SETUSER', 'limited', '-pexpire');
  await untilReadiness(ingress, 503);
  t.like(await keys.infer(key), { status: 503, code: 'SERVICE_UNAVAILABLE' });
  await redis.call('ACL', 'SETUSER', 'limited', '+pexpire');
  await untilReadiness(ingress, 200);
  t.is(await inferredStatus(keys, key), 200);
});

faultTest(
  test.serial,
  {
    id: '24a',
    done: 'ingress and worker start while Redis is unreachable',
    promised: 'they log it and wait, live but not ready, and work when Redis is reachable',
  },
  async (t, see) => {
    await allOfRedis.kill('SIGKILL');
    const before = stack.started().length;
    const starting = [stack.startIngress(), stack.startWorker()] as const;
    const started = stack.started().slice(before);
    const processes = await Promise.all(
      started.map(async (child) => {
        const { port } = await child.line(({ msg }) => msg?.startsWith('operations') === true);
        await child.line(({ msg }) => msg?.includes('cannot be reached') === true);
        return { operationsUrl: `http://127.0.0.1:${port}` };
      }),
    );
    for (const { operationsUrl } of processes) t.is((await fetch(`${operationsUrl}/healthz`)).status, 200);
    t.deepEqual(await Promise.all(processes.map(readinessOf)), [503, 503]);

    await allOfRedis.restart();
    const [ingress] = await Promise.all(starting);
    t.deepEqual(await Promise.all(processes.map(readinessOf)), [200, 200]);
    for (const other of stack.ingresses) await untilReadiness(other, 200);
    const answer = await chat({ url: ingress.url, key: await stack.mintKey('dave'), question });
    t.is(await wholeText(answer), expected);
    see(`/healthz 200 and /readyz 503 of each process; once reachable: /readyz 200, a request ${answer.status}`);
  },
);

test.serial('a Redis that may evict data is refused at the start, in one sentence', async (t) => {
  await allOfRedis.each((redis) => redis.config('SET', 'maxmemory-policy', 'allkeys-lru'));
  for (const start of [stack.startIngress, stack.startWorker]) {
    await t.throwsAsync(start(), { message: /maxmemory-policy allkeys-lru; it must be noeviction/ });
  }
  await allOfRedis.each((redis) => redis.config('SET', 'maxmemory-policy', 'noeviction'));
});

test('a process without its settings names every missing one, and exits', async (t) => {
  const ingress = startServiceProcess({ side: 'ingress', env: {} });
  t.is(await ingress.exited, 1);
  for (const name of ['REDIS_URL', 'DATABASE_URL', 'PLAN_FILE', 'BASE_URL', 'AUTH_URL', 'KEY_PEPPER']) {
    t.regex(ingress.errors(), new RegExp(`${name}: is required`));
  }
});
