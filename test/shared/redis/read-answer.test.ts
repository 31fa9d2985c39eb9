import test from 'ava';
import { intOf, wordOf, wordsOf } from '../../../shared/redis/read-answer.ts';

test('an answer is read word by word', (t) => {
  const [outcome, number, none] = wordsOf('run 12');
  t.is(wordOf(outcome), 'run');
  t.is(intOf(number), 12);
  t.is(intOf('-3'), -3);
  t.is(none, undefined);
});

test('an answer that is not text is rejected', (t) => {
  for (const answer of [null, undefined, 7, ['run', 1], {}]) t.throws(() => wordsOf(answer), undefined, String(answer));
  t.throws(() => wordOf(undefined));
});

test('a word that is not an integer is rejected', (t) => {
  for (const word of [undefined, '', 'nan', '1.5', '1e400', '9007199254740993', '-', 'run']) {
    t.throws(() => intOf(word), undefined, String(word));
  }
});
