import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { Redis } from 'ioredis';
import { type Stack, startStack } from '../stack/stack.ts';
import {
  areUnavailable,
  callsOfStore,
  callsOfTheSeen,
  createCast,
  isWellAgain,
} from '../support/calls-without-parts.ts';
import { errorsIn } from '../support/errors-in.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { addressIn, startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

let stack: Stack;

test.before(async () => {
  stack = await startStack({ ingresses: 2 });
});
test.after.always(() => stack?.[Symbol.asyncDispose]());

for (const { signal, ...fault } of [
  {
    signal: 'SIGKILL' as const,
    id: '9d',
    done: 'Redis is killed while keys are used and managed',
    promised: 'requests with a credential get 503 in time, and nothing changes',
  },
  {
    signal: 'SIGSTOP' as const,
    id: '9e',
    done: 'Redis is frozen while keys are used and managed',
    promised: 'requests with a credential get 503 in time, and nothing changes',
  },
]) {
  faultTest(test.serial, fault, async (t, see) => {
    const { redis } = stack;
    if (redis === undefined) throw new Error('this stack has its own Redis');
    const keys = createKeyClient(stack);
    const cast = await createCast(keys, fault.id);
    const before = await keys.account(`user:${fault.id}-seen`);
    // Only a repeated mint of a guest key, which takes no credential, needs no Redis.
    const { 'guest mint, a repeat': repeat, ...others } = callsOfStore(keys, cast);
    const quota = () => keys.send('GET', '/billing/quota', { bearer: cast.seen });
    const calls = { ...others, ...callsOfTheSeen(keys, cast), quota };

    await redis.kill(signal);
    // Twice: a connection that stopped responding is replaced meanwhile.
    for (const time of ['first', 'second']) {
      see(`${time} time: 503 after at most ${await areUnavailable(t, calls)} ms`);
      t.deepEqual((await repeat?.())?.body.key, cast.guest);
    }
    for (const { operationsUrl } of stack.ingresses) t.is((await fetch(`${operationsUrl}/readyz`)).status, 503);

    if (signal === 'SIGKILL') await redis.restart();
    else await redis.kill('SIGCONT');
    await untilReady(stack);
    t.deepEqual((await keys.account(`user:${fault.id}-seen`)).body, before.body);
    t.is((await keys.account(`user:${fault.id}-newcomer`)).status, 404);
    await isWellAgain(t, keys, cast);
    t.deepEqual(errorsIn(stack.ingresses), []);
  });
}

/** A new ingress sends the text of a script at first, from then on its hash. */
const mark = readFileSync(new URL('../../shared/account-changes/mark-change.lua', import.meta.url), 'utf8');

for (const { hold, ...fault } of [
  {
    hold: (proxy: TcpProxy) => proxy.holdBefore(mark),
    id: '10f',
    done: 'a change of a key loses Redis before it is marked',
    promised: '503; no key is changed, and the change can be repeated',
  },
  {
    hold: (proxy: TcpProxy) => proxy.holdAfter(mark),
    id: '10g',
    done: 'Redis marks a change of a key and its reply is lost',
    promised: '503; no key is changed, and the change can be repeated',
  },
]) {
  faultTest(test.serial, fault, async (t, see) => {
    const keys = createKeyClient(stack);
    const changes = {
      rotate: (at: KeyClient, account: string, key: string) => at.rotate(account, key),
      revoke: (at: KeyClient, account: string, key: string) => at.revoke(account, key),
      mint: (at: KeyClient, account: string) => at.mint(account),
    };
    const statuses: [number, number][] = [];
    for (const [name, change] of Object.entries(changes)) {
      await using proxy = await startTcpProxy(addressIn(stack.redisUrl));
      const ingress = await stack.startIngress({ REDIS_URL: `redis://127.0.0.1:${proxy.port}` });
      const account = `${fault.id}-${name}`;
      const key = name === 'mint' ? '' : await keys.newKey(account);
      const states = (await keys.list(account)).map(({ state }) => state);
      const held = hold(proxy);
      const lost = change(createKeyClient(stack, { url: () => ingress.url }), account, key);
      await held;
      const refused = await lost;
      t.like(refused, { status: 503, body: { code: 'SERVICE_UNAVAILABLE' } }, name);
      t.deepEqual(
        (await keys.list(account)).map(({ state }) => state),
        states,
        name,
      );
      if (key !== '') t.is((await keys.models(key)).status, 200, name);
      const again = await change(keys, account, key);
      t.is(again.status, 200, name);
      statuses.push([refused.status, again.status]);
      if (key !== '') t.is((await keys.models(key)).status, 401, name);
      await ingress.process.stop();
      t.deepEqual(errorsIn([ingress]), []);
    }
    t.deepEqual(errorsIn(stack.ingresses), []);
    see(`changes, and when repeated: ${statuses.map((pair) => pair.join(', then ')).join('; ')}`);
  });
}

/** Polls readiness: the connection recovers within a second of Redis. */
async function untilReady({ ingresses }: Stack): Promise<void> {
  for (const { operationsUrl } of ingresses) {
    const isReady = async () => (await fetch(`${operationsUrl}/readyz`)).status === 200;
    while (!(await isReady())) await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

faultTest(
  test.serial,
  {
    id: '12b',
    done: 'Redis loses all data, three times',
    promised: 'every key is accepted or refused as before, at both ingresses',
  },
  async (t, see) => {
    const onA = createKeyClient(stack, { url: () => stack.ingresses[0]?.url ?? '' });
    const onB = createKeyClient(stack, { url: () => stack.ingresses[1]?.url ?? '' });
    const rotated = await onA.newKey('rotated');
    const rotatedTo = String((await onA.rotate('rotated', rotated)).body.key);
    const revoked = await onA.newKey('revoked');
    await onA.revoke('revoked', revoked);
    const suspended = await onA.newKey('suspended');
    await onA.change('user:suspended', { suspended: true });
    const guest = String((await onA.guest('device-of-the-live')).body.key);
    const live = await onA.newKey('live');
    const expected = new Map([
      [live, 200],
      [rotated, 401],
      [rotatedTo, 200],
      [revoked, 401],
      [suspended, 403],
      [guest, 200],
    ]);
    async function proves(when: string): Promise<void> {
      for (const [name, keys] of Object.entries({ onA, onB })) {
        for (const [index, [key, status]] of [...expected].entries()) {
          const about = `key ${index}, ${name}, ${when}`;
          t.is((await keys.models(key)).status, status, about);
          t.is(await inferredStatus(keys, key), status, about);
        }
      }
    }

    await proves('before');
    const redis = new Redis(stack.redisUrl);
    t.teardown(() => redis.disconnect());
    for (const time of ['once', 'twice']) {
      await redis.flushall();
      await redis.script('FLUSH');
      await proves(`emptied ${time}`);
    }
    await redis.flushall();
    const again = await onB.rotate('rotated', rotatedTo);
    await onB.change('user:suspended', { suspended: false });
    expected.set(rotatedTo, 401).set(String(again.body.key), 200).set(suspended, 200);
    await proves('after changes at the other ingress');
    t.deepEqual((await onB.guest('device-of-the-live')).body.key, guest);
    t.deepEqual(errorsIn(stack.ingresses), []);
    see(`${expected.size} keys at 2 ingresses: each as before, 3 times`);
  },
);

/** The reply stream is lost as well and reopened within seconds. Until then requests get 503. */
async function inferredStatus(keys: KeyClient, key: string): Promise<number> {
  for (;;) {
    const { status } = await keys.infer(key);
    if (status !== 503) return status;
    await sleep(20);
  }
}

test.serial('an ingress that cannot receive replies is not ready, and becomes ready again when it can', async (t) => {
  const redis = new Redis(stack.redisUrl);
  t.teardown(() => redis.disconnect());
  await redis.call('ACL', 'SETUSER', 'limited', 'on', '>password', '~*', '&*', '+@all');
  const ingress = await stack.startIngress({ REPLY_REDIS_URL: stack.redisUrl.replace('//', '//limited:password@') });
  const keys = createKeyClient(stack, { url: () => ingress.url });
  const key = await keys.newKey('waiting');
  const readiness = async () => (await fetch(`${ingress.operationsUrl}/readyz`)).status;
  t.is(await readiness(), 200);
  await redis.call('ACL', 'SETUSER', 'limited', '-pexpire');
  while ((await readiness()) === 200) await sleep(50);
  t.like(await keys.infer(key), { status: 503, code: 'SERVICE_UNAVAILABLE' });
  await redis.call('ACL', 'SETUSER', 'limited', '+pexpire');
  while ((await readiness()) !== 200) await sleep(50);
  t.like(await keys.infer(key), { status: 200 });
  await ingress.process.stop();
});

test.serial('an ingress that stops has stored when keys were last used, to the minute', async (t) => {
  const [survivor] = stack.ingresses;
  const leaving = await stack.startIngress();
  let url = leaving.url;
  const keys = createKeyClient(stack, { url: () => url });
  const device = `device:${createHash('sha256').update('device-of-ann').digest('hex')}`;
  const startedAt = Date.now();
  const key = await keys.newKey('used');
  const guest = String((await keys.guest('device-of-ann')).body.key);
  t.like(await keys.infer(key), { status: 200 });
  t.like(await keys.infer(guest), { status: 200 });
  const endedAt = Date.now();

  await leaving.process.stop();
  t.is(await leaving.process.exited, 0);
  url = survivor?.url ?? '';
  const { body } = await keys.account(device);
  const [listed] = await keys.list('used');
  const [ofDevice] = body.keys as { lastUsedAt?: string }[]; // a response of the service itself
  for (const lastUsedAt of [listed?.lastUsedAt, ofDevice?.lastUsedAt]) {
    const at = Date.parse(lastUsedAt ?? '');
    t.is(at % 60_000, 0);
    t.true(at > startedAt - 60_000 && at <= endedAt, lastUsedAt);
  }
  t.is(body.account, device);
  const firstSeenAt = Date.parse(String(body.createdAt));
  t.true(firstSeenAt >= startedAt && firstSeenAt <= endedAt);
});
