import test from 'ava';
import { costOf, figuresOf, formatSmallCost, tokensPerSecond } from '../../../ingress/console/try-it/answer-figures.ts';

const price = { prompt: '0.15', cached: '0.075', completion: '0.6', currency: 'USD' };
const streamed = {
  text: 'Hello',
  firstTokenMs: 130,
  totalMs: 1_130,
  tokens: { prompt: 9, completion: 31, total: 40 },
  finishReason: 'stop',
};

test('an answer shows its times, tokens, rate and cost', (t) => {
  t.deepEqual(figuresOf(streamed, price), [
    ['First token', '130 ms'],
    ['Total', '1.13 s'],
    ['Tokens/s', '30.0'],
    ['Tokens', '9 + 31'],
    ['Cost, about', '0.00002 USD'],
    ['Finish', 'stop'],
  ]);
});

test('what is not known is left out, and nothing is divided by no time', (t) => {
  t.deepEqual(figuresOf({ text: '', tokens: {} }, undefined), []);
  const whole = { text: 'Vector', firstTokenMs: 20, totalMs: 20, tokens: { prompt: 3, total: 3 } };
  t.deepEqual(figuresOf(whole, undefined), [
    ['Total', '20 ms'],
    ['Tokens', '3'],
  ]);
  t.is(tokensPerSecond({ ...streamed, totalMs: 130 }), undefined);
  t.is(tokensPerSecond({ ...streamed, tokens: { completion: 1 } }), undefined);
});

test('a cost is that of a million tokens, also if only their sum is known, and keeps two digits below a cent', (t) => {
  t.is(costOf({ prompt: 1_000_000, completion: 1_000_000 }, price), 0.75);
  t.is(costOf({ total: 2_000_000 }, price), 0.3);
  t.is(costOf({}, price), undefined);
  t.is(formatSmallCost(0.0000123, 'EUR'), '0.000012 EUR');
  t.is(formatSmallCost(0, 'EUR'), '0.00 EUR');
  t.is(formatSmallCost(1.5, 'EUR'), '1.50 EUR');
});
