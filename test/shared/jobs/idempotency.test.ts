import test from 'ava';
import { createKeptAnswers, keepsAnswer } from '../../../shared/jobs/idempotency.ts';

const owner = { account: 'user:alice', idempotencyKey: 'order 17' };
const answer = { body: '{"text":"Zażółć 🐬 in May"}', estimated: true };
const kept = createKeptAnswers(['new pepper', 'old pepper']);

const opened = { ...answer, body: Buffer.from(answer.body) };
const seal = (answers = kept, of = owner, what = answer) => answers.seal(of, what);

test('a sealed answer opens unchanged, and no word of it can be read', (t) => {
  const sealed = seal();
  t.deepEqual(kept.open(owner, sealed), opened);
  const empty = kept.open(owner, seal(kept, owner, { body: '', estimated: false }));
  t.deepEqual(empty, { body: Buffer.alloc(0), estimated: false });
  for (const text of [sealed.toString('latin1'), sealed.toString('utf8')])
    t.notRegex(text, /text|May|alice|order|pepper/);
  t.notDeepEqual(seal(), sealed, 'two seals of the same answer differ');
});

test('it opens for its owner only', (t) => {
  const sealed = seal();
  t.is(kept.open({ ...owner, account: 'user:bob' }, sealed), undefined);
  t.is(kept.open({ ...owner, idempotencyKey: 'order 18' }, sealed), undefined);
});

test('the longest account and idempotency key have a key of their own', (t) => {
  const longest = { account: `user:${'語'.repeat(255)}`, idempotencyKey: 'x'.repeat(255) };
  const sealed = seal(kept, longest);
  t.deepEqual(kept.open(longest, sealed), opened);
  t.is(kept.open({ ...longest, idempotencyKey: `${'x'.repeat(254)}y` }, sealed), undefined);
});

test('it opens with any pepper in use, and with no other', (t) => {
  const before = createKeptAnswers(['old pepper']);
  t.deepEqual(kept.open(owner, seal(before)), opened);
  t.is(before.open(owner, seal()), undefined);
  t.is(createKeptAnswers(['another pepper']).open(owner, seal()), undefined);
});

test('changed or shortened bytes do not open', (t) => {
  const sealed = seal();
  for (let index = 0; index < sealed.length; index++) {
    const changed = Buffer.from(sealed);
    changed[index] = (changed[index] ?? 0) ^ 1;
    t.is(kept.open(owner, changed), undefined, `byte ${index}`);
    t.is(kept.open(owner, sealed.subarray(0, index)), undefined, `${index} bytes`);
  }
});

test('an answer of 1 MiB opens unchanged', (t) => {
  const body = 'ü'.repeat(524_288);
  t.is(kept.open(owner, seal(kept, owner, { body, estimated: false }))?.body.toString(), body);
});

test('an answer in parts is sealed as one', (t) => {
  const whole = Buffer.from(answer.body);
  const body = [whole.subarray(0, 12), whole.subarray(12, 12), whole.subarray(12)];
  t.deepEqual(kept.open(owner, kept.seal(owner, { body, estimated: true })), opened);
});

test('an answer is kept up to the bytes that were reserved for it, and not if none were', (t) => {
  t.true(keepsAnswer(1_000, { answerBytesMax: 1_000 }));
  t.false(keepsAnswer(1_001, { answerBytesMax: 1_000 }));
  t.false(keepsAnswer(0, { answerBytesMax: 0 }));
});
