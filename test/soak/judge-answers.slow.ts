import test from 'ava';
import { wrongAnswers } from './judge-answers.ts';

const right = { 'whole: 200': 600, 'streamed: 200': 390, 'streamed: left': 5_000, 'bad body: 400': 50 };

test('answers that were asked for are right, however many clients have left', (t) => {
  t.deepEqual(wrongAnswers(right), []);
});

test('a service that refuses a fifth of what it is asked has not passed', (t) => {
  t.deepEqual(wrongAnswers({ 'whole: 200': 80, 'whole: 429': 20 }), []);
  t.deepEqual(wrongAnswers({ 'whole: 200': 79, 'whole: 429': 20, 'streamed: 200 interrupted': 1 }), [
    'only 79.0% of whole and streamed answers are 200',
  ]);
  t.is(wrongAnswers({}).length, 1, 'one that was asked nothing has not passed either');
});

test('more than one in a hundred that are 503 are wrong', (t) => {
  t.deepEqual(wrongAnswers({ ...right, 'whole: 503': 10 }), []);
  t.deepEqual(wrongAnswers({ ...right, 'whole: 503': 11 }), ['1.1% of whole and streamed answers are 503']);
});

test('one fault of ours, and one broken connection, are wrong', (t) => {
  for (const what of ['whole: 500', 'guest asked: 504', 'batch: failed', 'failed: keys: ECONNRESET'])
    t.deepEqual(wrongAnswers({ ...right, [what]: 1 }), [what]);
});
