import test from 'ava';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { estimateTokens } from '../../../../shared/endpoints/tokens/estimate-tokens.ts';
import { hostileTexts } from '../../../support/hostile-texts.ts';
import { ordinaryTexts } from '../../../support/text-samples.ts';

/** The encoder's time grows with the square of an unbroken run, so it gets at most this much at once. */
const parts = /.{0,511}\S(?= \S|$)|.{1,512}/gsu;

/** The relative error of each text: 0.1 means that the estimate is 10 % too high. */
function errorsOf(texts: Readonly<Record<string, string>>): [kind: string, error: number][] {
  return Object.entries(texts).map(([kind, text]) => {
    const counted = (text.match(parts) ?? []).reduce((sum, part) => sum + countTokens(part), 0);
    return [kind, estimateTokens(text) / counted - 1];
  });
}

const percent = (error: number) => `${error < 0 ? '' : '+'}${Math.round(error * 100)} %`;
const listed = (errors: [string, number][]) => errors.map(([kind, error]) => `${kind} ${percent(error)}`).join(', ');

test('ordinary text is never underestimated, and not overestimated by much', (t) => {
  const errors = errorsOf(ordinaryTexts);
  t.log(listed(errors));
  for (const [kind, error] of errors) t.true(error >= 0 && error <= 0.7, `${kind}: ${percent(error)}`);
  const average = errors.reduce((sum, [, error]) => sum + error, 0) / errors.length;
  t.true(average < 0.4, percent(average));
});

test('hostile text is not underestimated by much', (t) => {
  const errors = errorsOf(hostileTexts());
  t.true(errors.length > 150);
  t.log(listed(errors.filter(([, error]) => error < 0)));
  for (const [kind, error] of errors) t.true(error >= -0.15, `${kind}: ${percent(error)}`);
});

test('no text has more tokens than bytes', (t) => {
  const short = ['', 'a', '1', ' ', '\n', '.', 'é', '中', '🎉', '\ud800', '\0', 'ab', '1 ', ' 1', '한글'];
  for (const text of [...Object.values({ ...ordinaryTexts, ...hostileTexts() }), ...short]) {
    t.true(estimateTokens(text) <= Buffer.byteLength(text), JSON.stringify(text.slice(0, 40)));
    t.true(text === '' || estimateTokens(text) > 0, JSON.stringify(text.slice(0, 40)));
  }
  t.is(estimateTokens(''), 0);
});

test('an estimate grows with the text, and the estimates of two halves add up to about the total', (t) => {
  for (const [kind, text] of Object.entries(ordinaryTexts)) {
    const half = text.length >> 1;
    const [first, second] = [estimateTokens(text.slice(0, half)), estimateTokens(text.slice(half))];
    const whole = estimateTokens(text);
    t.true(first < whole && second < whole, kind);
    t.true(Math.abs(first + second - whole) <= 3, `${kind}: ${first} + ${second} for ${whole}`);
  }
});

test('the boundaries of the pieces in which a text is read do not affect the estimate', (t) => {
  for (const repeated of ['hello world ', '😀', 'ab1 ', 'привет, 12345\n', 'éE', '. . ']) {
    for (const before of ['', 'x', 'xy ']) {
      const tokens = [1, 2, 3].map((times) => estimateTokens(before + repeated.repeat(times * 20_000)));
      const [first = 0, second = 0, third = 0] = tokens;
      t.is(third - second, second - first, JSON.stringify(before + repeated));
    }
  }
});
