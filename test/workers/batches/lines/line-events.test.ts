import test from 'ava';
import fc from 'fast-check';
import { controlStreamKey } from '../../../../shared/redis/keys.ts';
import { createSendLineEvent, decodeLineEvent, type LineEvent } from '../../../../workers/batches/lines/line-events.ts';
import { retryOf } from '../../../shared/store/batch-records.ts';
import { openRedisDatabase, type RedisDatabase } from '../../../support/private-redis.ts';
import { recordedLog } from '../../../support/recorded-log.ts';

let own: RedisDatabase;

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());

const id = { batch: 'batch_1', line: 7, number: 2 };
const retry = retryOf('batch_1', 7, { notBefore: new Date('2026-12-05T10:11:12.345Z') });

const events: LineEvent[] = [
  { type: 'started', ...id },
  { type: 'postponed', ...id },
  { type: 'dropped', ...id },
  { type: 'ended', answered: true, ...id },
  { type: 'ended', answered: false, ...id },
  { type: 'retry', retry, ...id },
];

test('events arrive unchanged and in order', async (t) => {
  const send = createSendLineEvent(own.redis, recordedLog().log);
  const control = controlStreamKey('here');
  await own.redis.xadd(control, '*', 'a', 'b');
  for (const event of events) send({ ...id, tellTo: control }, event);
  const [, ...stored] = await own.redis.xrange(control, '-', '+'); // on the same connection, so it runs after the sends
  t.deepEqual(
    stored.map(([, [name = '', value = '']]) => decodeLineEvent({ [name]: value })),
    events,
  );
});

test('sends nothing to a worker that is gone, and leaves nothing behind', async (t) => {
  const send = createSendLineEvent(own.redis, recordedLog().log);
  for (const control of [controlStreamKey('gone'), '']) {
    send({ ...id, tellTo: control }, { type: 'started' });
    t.is(await own.redis.exists(control), 0);
  }
});

test('a failure to send is logged and has no other effect', async (t) => {
  const { log, lines } = recordedLog();
  await own.redis.set('no stream', 'but a string');
  createSendLineEvent(own.redis, log)({ ...id, tellTo: 'no stream' }, { type: 'started' });
  await own.redis.ping();
  t.like(lines, { 0: { level: 'debug' }, length: 1 });
});

test('a stream that no worker reads stays near its length limit', async (t) => {
  const control = controlStreamKey('silent');
  await own.redis.xadd(control, '*', 'a', 'b');
  const send = createSendLineEvent(own.redis, recordedLog().log);
  for (let count = 0; count < 11_000; count++) send({ ...id, tellTo: control }, { type: 'started' });
  const length = await own.redis.xlen(control);
  t.true(length >= 10_000 && length < 10_200, String(length));
});

const hostile: Record<string, Record<string, string>> = {
  'an empty entry': {},
  'a cancellation': { cancel: 'req_1' },
  'text that is not JSON': { line: '{' },
  'a scalar': { line: '7' },
  'an unknown event': { line: JSON.stringify({ type: 'eaten', ...id }) },
  'an event without a line': { line: JSON.stringify({ type: 'started', batch: 'b', number: 1 }) },
  'an event of line 0': { line: JSON.stringify({ type: 'started', ...id, line: 0 }) },
  'an event whose line is a string': { line: JSON.stringify({ type: 'started', ...id, line: '7' }) },
  'an end that does not say whether a backend answered': { line: JSON.stringify({ type: 'ended', ...id }) },
  'a retry without its request': { line: JSON.stringify({ type: 'retry', ...id }) },
  'a retry without a time': {
    line: JSON.stringify({ type: 'retry', ...id, retry: { ...id, failures: 1, losses: 0 } }),
  },
};

for (const [name, fields] of Object.entries(hostile)) {
  test(`${name} is ignored`, (t) => {
    t.is(decodeLineEvent(fields), undefined);
  });
}

test('no entry makes the decoder throw', (t) => {
  const anyFields = fc.oneof(
    fc.dictionary(fc.string(), fc.string()),
    fc.record({ line: fc.oneof(fc.json(), fc.string({ unit: 'binary' })) }),
    fc.record({
      line: fc
        .record({ type: fc.constantFrom('started', 'ended', 'retry'), line: fc.jsonValue() })
        .map((value) => JSON.stringify(value)),
    }),
  );
  let none = 0;
  fc.assert(
    fc.property(anyFields, (fields) => {
      if (decodeLineEvent(fields) === undefined) none++;
    }),
    { numRuns: 1_000 },
  );
  t.true(none > 900);
});
