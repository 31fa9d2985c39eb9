import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { connectForRequests, connectForWork, type Redis } from '../../../shared/redis/connections.ts';
import { replyStreamKey } from '../../../shared/redis/keys.ts';
import { fieldsOf, type Inbox, openInbox } from '../../../shared/redis/stream-inbox.ts';
import { type PrivateRedis, startPrivateRedis } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';

type Subject = { inbox: Inbox; taken: string[]; lost: string[] };

/** An inbox that records its entries. `heartbeatMs` is short, for the tests that lose a stream. */
function open(
  t: ExecutionContext,
  own: PrivateRedis,
  onEntry: (text: string) => void = () => {},
  options: { gatherMs?: number; trimMs?: number } = {},
): Subject {
  const { log } = recordedLog();
  const redis = connectForRequests(own.server.url, log);
  t.teardown(() => redis.disconnect());
  const taken: string[] = [];
  const lost: string[] = [];
  const inbox = openInbox({
    connectReader: () => connectForWork(own.server.url, log),
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

/** Waits for an expected state. The test's own time-out ends the wait if it never comes. */
async function until(t: ExecutionContext, holds: () => boolean | Promise<boolean>): Promise<void> {
  t.timeout(60_000);
  while (!(await holds())) await sleep(10);
}

async function addressOf(t: ExecutionContext, { inbox }: Subject): Promise<string> {
  await until(t, () => inbox.address() !== undefined);
  return inbox.address() ?? '';
}

const write = (redis: Redis, stream: string, text: string) => redis.xadd(stream, 'NOMKSTREAM', '*', 'text', text);
const numbered = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => String(from + index));

test('delivers every entry once, in order', async (t) => {
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

test('reads on at once, except after an entry that announces more, when it pauses first', async (t) => {
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

test('entries are trimmed after they were read, down to the last one', async (t) => {
  await using own = await startPrivateRedis();
  const subject = open(t, own);
  await using _inbox = subject.inbox;
  const address = await addressOf(t, subject);
  await Promise.all(numbered(0, 1_200).map((text) => write(own.redis, address, text)));
  await until(t, () => subject.taken.length === 1_200);
  await until(t, async () => (await own.redis.xlen(address)) === 0);
  t.is(await own.redis.exists(address), 1, 'an empty stream still shows that it has a reader');
  t.not(await write(own.redis, address, 'more'), null);
  await until(t, () => subject.taken.length === 1_201);
});

test('what was read stays until a mebibyte was read, if the time to trim has not come', async (t) => {
  await using own = await startPrivateRedis();
  const subject = open(t, own, undefined, { trimMs: 3_600_000 });
  await using _inbox = subject.inbox;
  const address = await addressOf(t, subject);
  const half = 'x'.repeat(524_288);
  await write(own.redis, address, half);
  await until(t, () => subject.taken.length === 1);
  for (let round = 0; round < 100; round++) await own.redis.ping();
  t.is(await own.redis.xlen(address), 2, 'with the one that opened the stream');
  await write(own.redis, address, half);
  await until(t, async () => (await own.redis.xlen(address)) === 0);
});

test('entries written while its connections were killed arrive once and in order', async (t) => {
  await using own = await startPrivateRedis();
  const subject = open(t, own);
  await using _inbox = subject.inbox;
  const address = await addressOf(t, subject);
  const texts = numbered(0, 500);
  for (const [index, text] of texts.entries()) {
    if (index % 100 === 50) {
      // Both connections of the inbox: all except the one that sends this command.
      await own.redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    }
    await write(own.redis, address, text);
  }
  await until(t, () => subject.taken.length >= texts.length);
  t.deepEqual(subject.taken, texts);
  t.deepEqual(subject.lost, []);
  t.is(await addressOf(t, subject), address);
});

test('a restart of Redis loses nothing, and the address stays the same', async (t) => {
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

test('it has no address while Redis is down or silent, and the same one afterwards', async (t) => {
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

test('a lost stream is reported once, and another is opened under a new address', async (t) => {
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
  t.is(await write(own.redis, first, 'no reader'), null);
  await write(own.redis, second, 'two');
  await until(t, () => subject.taken.length === 2);
  t.deepEqual(subject.taken, ['one', 'two']);
});

test('an entry whose handler fails does not block the entries after it', async (t) => {
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

test('a write to a closed inbox reports that in the same call', async (t) => {
  await using own = await startPrivateRedis();
  const subject = open(t, own);
  const address = await addressOf(t, subject);
  t.not(await write(own.redis, address, 'received'), null);
  await subject.inbox[Symbol.asyncDispose]();
  t.is(await write(own.redis, address, 'not received'), null);
  t.is(await own.redis.exists(address), 0);
});

test('the address of an inbox expires unless it is renewed', async (t) => {
  await using own = await startPrivateRedis();
  const subject = open(t, own);
  await using _inbox = subject.inbox;
  const address = await addressOf(t, subject);
  const life = await own.redis.pttl(address);
  t.true(life > 0 && life <= 60_000, String(life));
  await own.redis.pexpire(address, 30_000);
  await until(t, async () => (await own.redis.pttl(address)) > 50_000);
});

test('closing works while Redis is unavailable', async (t) => {
  await using own = await startPrivateRedis();
  const subject = open(t, own);
  await addressOf(t, subject);
  await own.server.kill('SIGKILL');
  t.timeout(60_000);
  await t.notThrowsAsync(async () => subject.inbox[Symbol.asyncDispose]());
});
