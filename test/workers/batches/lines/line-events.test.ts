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

const about = { batch: 'batch_1', line: 7, number: 2 };
const all: LineEvent[] = [
  { news: 'started', ...about },
  { news: 'later', ...about },
  { news: 'full', ...about },
  { news: 'dropped', ...about },
  { news: 'ended', answered: true, ...about },
  { news: 'ended', answered: false, ...about },
  { news: 'again', ...about, retry: retryOf('batch_1', 7, { notBefore: new Date('2026-12-05T10:11:12.345Z') }) },
];

test('what is told arrives as it was, and in its order', async (t) => {
  const tell = createSendLineEvent(own.redis, recordedLog().log);
  const control = controlStreamKey('here');
  await own.redis.xadd(control, '*', 'a', 'b');
  for (const { batch, line, number, ...news } of all) tell({ batch, line, number, tellTo: control }, news);
  const [, ...entries] = await own.redis.xrange(control, '-', '+'); // behind the telling, on the same connection
  const heard = entries.map(([, [name = '', value = '']]) => decodeLineEvent({ [name]: value }));
  t.deepEqual(heard, all);
});

test('a worker that is gone is told nothing, and nothing is left of that', async (t) => {
  const tell = createSendLineEvent(own.redis, recordedLog().log);
  for (const control of [controlStreamKey('gone'), '']) {
    tell({ ...about, tellTo: control }, { news: 'started' });
    t.is(await own.redis.exists(control), 0);
  }
});

test('a telling that fails is noted, and nobody’s concern', async (t) => {
  const { log, lines } = recordedLog();
  await own.redis.set('no stream', 'but a string');
  createSendLineEvent(own.redis, log)({ ...about, tellTo: 'no stream' }, { news: 'started' });
  await own.redis.ping();
  t.like(lines, { 0: { level: 'debug' }, length: 1 });
});

test('a stream that nobody reads stays about as long as its bound', async (t) => {
  const control = controlStreamKey('silent');
  await own.redis.xadd(control, '*', 'a', 'b');
  const tell = createSendLineEvent(own.redis, recordedLog().log);
  for (let count = 0; count < 11_000; count++) tell({ ...about, tellTo: control }, { news: 'started' });
  const length = await own.redis.xlen(control);
  t.true(length >= 10_000 && length < 10_200, String(length));
});

const hostile: Record<string, Record<string, string>> = {
  nothing: {},
  'a cancellation': { cancel: 'req_1' },
  'no JSON': { line: '{' },
  'a scalar': { line: '7' },
  'other news': { line: JSON.stringify({ news: 'eaten', ...about }) },
  'no line': { line: JSON.stringify({ news: 'started', batch: 'b', number: 1 }) },
  'line 0': { line: JSON.stringify({ news: 'started', ...about, line: 0 }) },
  'a line that is no number': { line: JSON.stringify({ news: 'started', ...about, line: '7' }) },
  'an end that does not say how': { line: JSON.stringify({ news: 'ended', ...about }) },
  'another try without its retry': { line: JSON.stringify({ news: 'again', ...about }) },
  'a retry without a time': {
    line: JSON.stringify({ news: 'again', ...about, retry: { ...about, failures: 1, losses: 0 } }),
  },
};

for (const [name, fields] of Object.entries(hostile)) {
  test(`${name} is no news`, (t) => {
    t.is(decodeLineEvent(fields), undefined);
  });
}

test('no entry makes whoever reads it fail', (t) => {
  const anyFields = fc.oneof(
    fc.dictionary(fc.string(), fc.string()),
    fc.record({ line: fc.oneof(fc.json(), fc.string({ unit: 'binary' })) }),
    fc.record({
      line: fc
        .record({ news: fc.constantFrom('started', 'ended', 'again'), line: fc.jsonValue() })
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
