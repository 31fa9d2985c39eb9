import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import type { Redis } from 'ioredis';
import { connectForRequests } from '../../../shared/redis/connections.ts';
import { replyStreamKey } from '../../../shared/redis/keys.ts';
import { fieldsOf, type Inbox, openInbox } from '../../../shared/redis/stream-inbox.ts';
import { type PrivateRedis, startPrivateRedis } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';

type Subject = { inbox: Inbox; taken: string[]; lost: string[] };

/** An inbox that keeps what it was handed; `heartbeatMs` is short, for the tests in which a stream gets lost. */
function open(
  t: ExecutionContext,
  own: PrivateRedis,
  onEntry: (text: string) => void = () => {},
  options: { gatherMs?: number } = {},
): Subject {
  const { log } = recordedLog();
  const redis = connectForRequests(own.server.url, log);
  t.teardown(() => redis.disconnect());
  const taken: string[] = [];
  const lost: string[] = [];
  const inbox = openInbox({
    reader: own.connect(),
    redis,
    keyOf: replyStreamKey,
    heartbeatMs: 50,
    ...options,
    onEntry: (entry) => {
      const { text } = fieldsOf(entry);
      if (text === undefined) return false;
      taken.push(text);
      onEntry(text);
      return text === 'one of many';
    },
    onLost: () => lost.push('lost'),
    log,
  });
  return { inbox, taken, lost };
}

/** Waits for what has to come; that it comes at all is what the test's own time-out is for. */
async function until(t: ExecutionContext, holds: () => boolean | Promise<boolean>): Promise<void> {
  t.timeout(30_000);
  while (!(await holds())) await sleep(10);
}

async function addressOf(t: ExecutionContext, { inbox }: Subject): Promise<string> {
  await until(t, () => inbox.address() !== undefined);
  return inbox.address() ?? '';
}

const write = (redis: Redis, stream: string, text: string) => redis.xadd(stream, 'NOMKSTREAM', '*', 'text', text);
const numbered = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => String(from + index));

test('hands over every entry once, in order', async (t) => {
  await using own = await startPrivateRedis();
  const subject = open(t, own);
  await using _inbox = subject.inbox;
  const address = await addressOf(t, subject);
  const texts = numbered(0, 2_000);
  for (const text of texts.slice(0, 10)) await write(own.redis, address, text);
  await Promise.all(texts.slice(10).map((text) => write(own.redis, address, text)));
  await until(t, () => subject.taken.length >= texts.length);
  t.deepEqual(subject.taken, texts);
});

test('after entries of which more follow it reads no further for a while, after others at once', async (t) => {
  await using own = await startPrivateRedis();
  const subject = open(t, own, undefined, { gatherMs: 3_600_000 });
  await using _inbox = subject.inbox;
  const address = await addressOf(t, subject);
  for (const text of ['other', 'another', 'one of many']) {
    await write(own.redis, address, text);
    await until(t, () => subject.taken.at(-1) === text);
  }
  await write(own.redis, address, 'later');
  for (let round = 0; round < 100; round++) await own.redis.ping();
  t.deepEqual(subject.taken, ['other', 'another', 'one of many']);
});

test('what was read is trimmed, to the last entry', async (t) => {
  await using own = await startPrivateRedis();
  const subject = open(t, own);
  await using _inbox = subject.inbox;
  const address = await addressOf(t, subject);
  await Promise.all(numbered(0, 1_200).map((text) => write(own.redis, address, text)));
  await until(t, () => subject.taken.length === 1_200);
  await until(t, async () => (await own.redis.xlen(address)) === 0);
  t.is(await own.redis.exists(address), 1, 'an empty stream still says that somebody reads it');
  t.not(await write(own.redis, address, 'more'), null);
  await until(t, () => subject.taken.length === 1_201);
});

test('entries written while its connections were killed arrive, once and in order', async (t) => {
  await using own = await startPrivateRedis();
  const subject = open(t, own);
  await using _inbox = subject.inbox;
  const address = await addressOf(t, subject);
  const texts = numbered(0, 500);
  for (const [index, text] of texts.entries()) {
    if (index % 100 === 50) {
      // Both connections of the inbox: all but the one that asks.
      await own.redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    }
    await write(own.redis, address, text);
  }
  await until(t, () => subject.taken.length >= texts.length);
  t.deepEqual(subject.taken, texts);
  t.deepEqual(subject.lost, []);
  t.is(await addressOf(t, subject), address);
});

test('a restart of Redis loses nothing, and the address stays', async (t) => {
  await using own = await startPrivateRedis();
  const subject = open(t, own);
  await using _inbox = subject.inbox;
  const address = await addressOf(t, subject);
  await write(own.redis, address, 'before');
  await own.server.restart();
  await write(own.redis, address, 'after');
  await until(t, () => subject.taken.length >= 2);
  t.deepEqual(subject.taken, ['before', 'after']);
  t.deepEqual(subject.lost, []);
  t.is(await addressOf(t, subject), address);
});

test('it has no address while Redis does not answer, be it gone or silent, and the same one afterwards', async (t) => {
  await using own = await startPrivateRedis();
  const subject = open(t, own);
  await using _inbox = subject.inbox;
  const address = await addressOf(t, subject);
  await own.server.kill('SIGSTOP');
  await until(t, () => subject.inbox.address() === undefined);
  await own.server.kill('SIGCONT');
  t.is(await addressOf(t, subject), address);
  await own.server.kill('SIGKILL');
  await until(t, () => subject.inbox.address() === undefined);
  await own.server.restart();
  t.is(await addressOf(t, subject), address);
});

test('a stream that was lost is told once, and another is opened under a new address', async (t) => {
  await using own = await startPrivateRedis();
  const subject = open(t, own);
  await using _inbox = subject.inbox;
  const first = await addressOf(t, subject);
  await write(own.redis, first, 'one');
  await until(t, () => subject.taken.length === 1);

  await own.redis.flushall();
  await until(t, () => subject.inbox.address() !== first && subject.inbox.address() !== undefined);
  const second = subject.inbox.address() ?? '';
  t.deepEqual(subject.lost, ['lost']);
  t.is(await write(own.redis, first, 'to nobody'), null);
  await write(own.redis, second, 'two');
  await until(t, () => subject.taken.length === 2);
  t.deepEqual(subject.taken, ['one', 'two']);
});

test('an entry that cannot be handled holds up none after it', async (t) => {
  await using own = await startPrivateRedis();
  const subject = open(t, own, (text) => {
    if (text === 'bad') throw new Error('cannot be handled');
  });
  await using _inbox = subject.inbox;
  const address = await addressOf(t, subject);
  const texts = ['a', 'bad', 'b', 'bad', 'c'];
  await Promise.all(texts.map((text) => write(own.redis, address, text)));
  await until(t, () => subject.taken.at(-1) === 'c');
  t.deepEqual(subject.taken, texts);
});

test('whoever writes to an inbox that was closed learns it in the same call', async (t) => {
  await using own = await startPrivateRedis();
  const subject = open(t, own);
  const address = await addressOf(t, subject);
  t.not(await write(own.redis, address, 'heard'), null);
  await subject.inbox[Symbol.asyncDispose]();
  t.is(await write(own.redis, address, 'not heard'), null);
  t.is(await own.redis.exists(address), 0);
});

test('the address of an inbox expires when nobody renews it', async (t) => {
  await using own = await startPrivateRedis();
  const subject = open(t, own);
  await using _inbox = subject.inbox;
  const address = await addressOf(t, subject);
  const life = await own.redis.pttl(address);
  t.true(life > 0 && life <= 60_000, String(life));
  await own.redis.pexpire(address, 30_000);
  await until(t, async () => (await own.redis.pttl(address)) > 50_000);
});

test('closes also while Redis is away', async (t) => {
  await using own = await startPrivateRedis();
  const subject = open(t, own);
  await addressOf(t, subject);
  await own.server.kill('SIGKILL');
  t.timeout(30_000);
  await t.notThrowsAsync(async () => subject.inbox[Symbol.asyncDispose]());
});
