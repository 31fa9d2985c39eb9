import test, { type ExecutionContext } from 'ava';
import { describeFailure, describeReport } from './describe-search.ts';
import { searchInThread } from './search-in-thread.ts';

const targetsUrl = new URL('planted-targets.ts', import.meta.url).href;
const seedTexts = ['some text', 'more'];

/** Long enough on any machine. A failure ends the search early. */
const search = (name: string, options: object = {}) =>
  searchInThread({ targetsUrl, name, seedTexts, seconds: 60, seed: 7, ...options });

async function failureOf(t: ExecutionContext, name: string, options: object = {}) {
  const { failure, tried } = await search(name, options);
  if (failure === undefined) return t.fail('no failure was found') as never;
  t.true(tried > 0);
  t.true(Buffer.from(failure.input).includes('bad!'), `of ${Buffer.from(failure.input)}`);
  return failure;
}

test('an input that breaks the promise is found, shrunk, and found again by its path', async (t) => {
  const failure = await failureOf(t, 'throws');
  t.true(failure.message.startsWith('Error: the input is bad'));
  t.true(failure.origin.split('\n').length <= 5, `few of eight edits remain: ${failure.origin}`);
  const again = await failureOf(t, 'throws', { path: failure.path });
  t.deepEqual(again.input, failure.input);
  const text = describeFailure('throws', failure, { seed: 7, file: 'a/file' });
  for (const part of ['the input is bad', 'bad!', 'made from', '--seed 7 --path', '--input a/file', 'seeds/throws/']) {
    t.true(text.includes(part), part);
  }
});

for (const name of ['loops', 'waits']) {
  test(`an input on which the code never ends is found: ${name}`, async (t) => {
    t.is((await failureOf(t, name, { stuckMs: 5_000 })).message, 'did not end within 5000 ms');
  });
}

test('an uncaught error is found, with the input that caused it', async (t) => {
  t.regex((await failureOf(t, 'rejects')).message, /an uncaught error/);
});

test('an input that takes too much processor time is found', async (t) => {
  t.regex((await failureOf(t, 'computes')).message, /took \d+ ms of processor time, more than 10 ms/);
});

test('a search without a failure ends with its time, and reports what it tried', async (t) => {
  const report = await search('holds', { seconds: 1 });
  t.is(report.failure, undefined);
  t.true(report.tried > 10);
  const { accepted = 0, refused = 0 } = report.outcomes;
  t.true([0, 1].includes(report.tried - accepted - refused), 'all except the input at the end of the time');
  t.regex(describeReport('holds', report), /^holds: [\d,]+ inputs \(accepted [\d,]+/);
});

test('an unknown target is an error of the search', async (t) => {
  await t.throwsAsync(search('nothing'), { message: 'there is no target nothing' });
});
