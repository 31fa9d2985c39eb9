import test, { type ExecutionContext } from 'ava';
import { searchInThread } from './search-in-thread.ts';
import { tellFailure, tellReport } from './tell-search.ts';

const targetsUrl = new URL('planted-targets.ts', import.meta.url).href;
const seedTexts = ['some text', 'more'];

/** Long enough to find it on any machine; what is found ends the search. */
const search = (name: string, wishes: object = {}) =>
  searchInThread({ targetsUrl, name, seedTexts, seconds: 60, seed: 7, ...wishes });

async function failureOf(t: ExecutionContext, name: string, wishes: object = {}) {
  const { failure, tried } = await search(name, wishes);
  if (failure === undefined) return t.fail('nothing was found') as never;
  t.true(tried > 0);
  t.true(Buffer.from(failure.input).includes('bad!'), `of ${Buffer.from(failure.input)}`);
  return failure;
}

test('an input that breaks the promise is found, made small, and found again by its path', async (t) => {
  const failure = await failureOf(t, 'throws');
  t.true(failure.message.startsWith('Error: it is bad'));
  t.true(failure.origin.split('\n').length <= 5, `few edits are left of eight: ${failure.origin}`);
  const again = await failureOf(t, 'throws', { path: failure.path });
  t.deepEqual(again.input, failure.input);
  const told = tellFailure('throws', failure, { seed: 7, file: 'a/file' });
  for (const part of ['it is bad', 'bad!', 'made from', '--seed 7 --path', '--input a/file', 'seeds/throws/']) {
    t.true(told.includes(part), part);
  }
});

for (const name of ['loops', 'waits']) {
  test(`an input with which the code never ends is found: ${name}`, async (t) => {
    t.is((await failureOf(t, name, { stuckMs: 5_000 })).message, 'did not end within 5000 ms');
  });
}

test('an error that nothing catches is found, with the input that it came from', async (t) => {
  t.regex((await failureOf(t, 'rejects')).message, /nothing catches it/);
});

test('an input that takes too much processor time is found', async (t) => {
  t.regex((await failureOf(t, 'computes')).message, /took \d+ ms of processor time, more than 10 ms/);
});

test('a search that finds nothing ends with its time, and says what it tried', async (t) => {
  const report = await search('holds', { seconds: 1 });
  t.is(report.failure, undefined);
  t.true(report.tried > 10);
  const { accepted = 0, refused = 0 } = report.outcomes;
  t.true([0, 1].includes(report.tried - accepted - refused), 'all but the input at which the time was over');
  t.regex(tellReport('holds', report), /^holds: [\d,]+ inputs \(accepted [\d,]+/);
});

test('a target that is not there is an error of the search', async (t) => {
  await t.throwsAsync(search('nothing'), { message: 'there is no target nothing' });
});
