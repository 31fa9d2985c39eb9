import { setImmediate as turn } from 'node:timers/promises';
import test from 'ava';
import type { Reply } from '../../../shared/jobs/replies.ts';
import type { Redis } from '../../../shared/redis/connections.ts';
import { createReplyFrames, type PostedReply, type ReplyFrames } from '../../../workers/replies/send-reply.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { openReplyStream, type ReplyStream } from '../../support/reply-stream.ts';

let given: RedisDatabase;

test.before(async () => {
  given = await openRedisDatabase();
});

test.after.always(() => given?.[Symbol.asyncDispose]());

const text = (request: string, data: string, sequence = 0): Reply => ({
  ...{ request, run: 1, sequence },
  ...{ kind: 'chunk', data, tokens: 1 },
});

async function open() {
  const stream = await openReplyStream(given.redis);
  return { stream, frames: createReplyFrames({ redis: given.redis }) };
}

type Opened = { stream: ReplyStream; frames: ReplyFrames };

const post = ({ stream, frames }: Opened, reply: Reply): PostedReply => frames.post(stream.key, [reply]);

/** The requests of each entry that was written. */
async function entries({ stream }: Opened): Promise<string[][]> {
  const written = await given.redis.xrange(stream.key, '-', '+');
  return written
    .filter(([, [name]]) => name === 'frame')
    .map(([, [, frame = '']]) => [...frame.matchAll(/^\w+ (\S+) \d+ \d+/gm)].map(([, request = '']) => request));
}

test('replies of several runs in one turn of the event loop are one entry', async (t) => {
  const opened = await open();
  const posted = ['a', 'b', 'c'].map((request) => post(opened, text(request, 'x')));
  t.deepEqual(await Promise.all(posted.map(({ sent }) => sent)), [true, true, true]);
  t.deepEqual(await entries(opened), [['a', 'b', 'c']]);
});

test('the next turn has the next entry', async (t) => {
  const opened = await open();
  const first = post(opened, text('a', 'x'));
  await turn();
  const second = post(opened, text('b', 'x'));
  t.deepEqual(await Promise.all([first.sent, second.sent]), [true, true]);
  t.deepEqual(await entries(opened), [['a'], ['b']]);
});

test('text is added to a chunk until the chunk is sent', async (t) => {
  const opened = await open();
  const chunk = post(opened, text('a', 'x'));
  t.true(chunk.add('yz', 3));
  await chunk.sent;
  t.false(chunk.add('late', 4));
  t.like(await opened.stream.replies(), [{ data: 'xyz', tokens: 3 }]);
  const end = post(opened, { request: 'a', run: 1, sequence: 1, kind: 'interrupted', data: { promptTokens: 1 } });
  t.false(end.add('text', 4), 'text is only added to a chunk');
  await end.sent;
});

test('a frame holds up to 256 replies and 64 KiB, unless one reply has more', async (t) => {
  const opened = await open();
  const many = Array.from({ length: 600 }, (_, index) => post(opened, text('a', 'x', index)));
  await Promise.all(many.map(({ sent }) => sent));
  t.deepEqual(
    (await entries(opened)).map(({ length }) => length),
    [256, 256, 88],
  );
  const together = await open();
  const few = Array.from({ length: 255 }, (_, index) => post(together, text('a', 'x', index)));
  const pair = [text('a', 'y', 255), text('a', 'z', 256)];
  few.push(together.frames.post(together.stream.key, pair));
  await Promise.all(few.map(({ sent }) => sent));
  t.deepEqual(
    (await entries(together)).map(({ length }) => length),
    [255, 2],
  );
  const other = await open();
  const large = 'x'.repeat(40_000);
  const posted = [large, large, large.repeat(3), 'y', 'z'].map((data, index) => post(other, text('a', data, index)));
  t.false(posted[0]?.add(large, 2), 'its frame was sent');
  await Promise.all(posted.map(({ sent }) => sent));
  t.deepEqual(
    (await entries(other)).map(({ length }) => length),
    [1, 1, 1, 2],
  );
  const replies = await other.stream.replies();
  t.deepEqual(
    replies.map(({ sequence }) => sequence),
    [0, 1, 2, 3, 4],
  );
});

test('a stream without a reader is bounded in bytes', async (t) => {
  const { stream } = await open();
  const body = 'x'.repeat(100_000);
  const frames = createReplyFrames({ redis: given.redis, charactersMax: 1_000_000 });
  for (let sequence = 0; sequence < 50; sequence++) {
    await frames.post(stream.key, [text('a', body, sequence)]).sent;
  }
  const kept = await given.redis.xlen(stream.key);
  t.true(kept >= 10 && kept < 20, `${kept} entries`);
});

test('one large reply removes no other entry from the stream', async (t) => {
  const { stream } = await open();
  const frames = createReplyFrames({ redis: given.redis });
  const others = 300;
  for (let entry = 0; entry < others; entry++) await given.redis.xadd(stream.key, '*', 'from', 'another worker');
  await frames.post(stream.key, [text('a', 'x'.repeat(20_000_000), 0)]).sent;
  await frames.post(stream.key, [text('a', 'y', 1)]).sent;
  t.true((await given.redis.xlen(stream.key)) >= others + 2);
});

test('each sender learns that the stream is gone, and nothing is created', async (t) => {
  const frames = createReplyFrames({ redis: given.redis });
  const key = 'svc:reply-frames:no-reader';
  const told: boolean[] = [];
  const posted = ['a', 'b'].map((request) => frames.post(key, [text(request, 'x')], (isThere) => told.push(isThere)));
  t.deepEqual(await Promise.all(posted.map(({ sent }) => sent)), [false, false]);
  t.deepEqual(told, [false, false]);
  t.is(await given.redis.exists(key), 0);
});

test('in a cluster a frame follows the one before it, and takes in what is posted meanwhile', async (t) => {
  const answers: ((id: string) => void)[] = [];
  const written: string[] = [];
  const xadd = (...args: string[]) => {
    written.push([...(args.at(-1) ?? '').matchAll(/^\w+ (\S+) \d+ \d+/gm)].map(([, request]) => request).join(' '));
    return new Promise<string>((resolve) => answers.push(resolve));
  };
  const frames = createReplyFrames({ redis: { isCluster: true, xadd } as unknown as Redis });
  const send = (request: string) => frames.post('svc:reply-frames:x', [text(request, 'x')]).sent;
  const first = send('a');
  await turn();
  const others = [send('b')];
  await turn();
  others.push(send('c'));
  await turn();
  t.deepEqual(written, ['a'], 'nothing overtakes a frame that may be sent again');
  answers[0]?.('1-0');
  t.true(await first);
  await turn();
  t.deepEqual(written, ['a', 'b c']);
  answers[1]?.('2-0');
  t.deepEqual(await Promise.all(others), [true, true]);
});
