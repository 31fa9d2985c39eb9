import test from 'ava';
import { wrongAnswers } from './judge-answers.ts';

const right = { 'whole: 200': 600, 'streamed: 200': 390, 'streamed: left': 5_000, 'bad body: 400': 50 };

test('answers with the expected status are right, however many clients have left', (t) => {
  t.deepEqual(wrongAnswers(right), []);
});

test('a service that rejects more than a fifth of its requests fails', (t) => {
  t.deepEqual(wrongAnswers({ 'whole: 200': 80, 'whole: 429': 20 }), []);
  t.deepEqual(wrongAnswers({ 'whole: 200': 79, 'whole: 429': 20, 'streamed: 200 interrupted': 1 }), [
    'only 79.0% of whole and streamed answers are 200',
  ]);
  t.is(wrongAnswers({}).length, 1, 'a run without requests fails as well');
});

test('more than one in a hundred answers with 503 is wrong', (t) => {
  t.deepEqual(wrongAnswers({ ...right, 'whole: 503': 10 }), []);
  t.deepEqual(wrongAnswers({ ...right, 'whole: 503': 11 }), ['1.1% of whole and streamed answers are 503']);
});

test('one internal error or one broken connection is wrong', (t) => {
  for (const what of ['whole: 500', 'guest asked: 504', 'batch: failed', 'failed: keys: ECONNRESET'])
    t.deepEqual(wrongAnswers({ ...right, [what]: 1 }), [what]);
});
