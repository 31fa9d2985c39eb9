import test from 'ava';
import { pieces, promptTokensOf } from '../../stack/model-server.ts';
import { makeTraffic, type TrafficSizes } from './traffic.ts';

const sizes: TrafficSizes = { chats: 60, turns: 10, oneOffShare: 0.25, sharedTokens: 0, spanMs: 60_000 };
const mean = (values: readonly number[]) => values.reduce((sum, each) => sum + each, 0) / values.length;
const isBetween = (value: number, from: number, to: number) => value >= from && value <= to;

test('the same seed makes the same traffic, and another seed makes another one', (t) => {
  t.deepEqual(makeTraffic(1, sizes), makeTraffic(1, sizes));
  t.notDeepEqual(makeTraffic(1, sizes), makeTraffic(2, sizes));
});

test('chats have their own opening and turns of the promised sizes', (t) => {
  const { chats, oneOffs } = makeTraffic(1, sizes);
  t.is(chats.length, 60);
  t.is(oneOffs.length, 150, 'a quarter of the turns');
  for (const { opening, turns } of chats) {
    t.is(turns.length, 10);
    t.true(isBetween(promptTokensOf(opening), 300, 700));
    t.true(turns.every(({ said }) => isBetween(pieces(said).length, 50, 150)));
    t.true(turns.every(({ answerTokensMax }) => isBetween(answerTokensMax, 60, 120)));
  }
  const beginnings = [...chats.map(({ opening }) => opening), ...oneOffs.map(({ messages }) => messages)].map(
    ([first]) =>
      pieces(first?.content ?? '')
        .slice(0, 16)
        .join(''),
  );
  t.is(new Set(beginnings).size, beginnings.length, 'no two begin with the same block');
});

test('a one-off request is about as long as the prompt of a chat in the middle', (t) => {
  const { chats, oneOffs } = makeTraffic(1, sizes);
  const middle = chats.map(({ opening, turns }) => {
    const before = turns.slice(0, 4).reduce((sum, turn) => sum + pieces(turn.said).length + turn.answerTokensMax, 0);
    return promptTokensOf(opening) + before + pieces(turns[4]?.said ?? '').length;
  });
  const ratio = mean(oneOffs.map(({ messages }) => promptTokensOf(messages))) / mean(middle);
  t.true(isBetween(ratio, 0.95, 1.05), `${ratio}`);
});

test('chats begin in the first fifth of the run, and pause so that they last for the rest', (t) => {
  const { chats, oneOffs } = makeTraffic(1, sizes);
  const starts = chats.map(({ turns }) => turns[0]?.waitMs ?? 0);
  t.true(Math.max(...starts) <= 12_000);
  const ends = chats.map(({ turns }) => turns.reduce((sum, { waitMs }) => sum + waitMs, 0));
  t.true(isBetween(mean(ends), 50_000, 58_000), `${mean(ends)}`);
  t.true(oneOffs.every(({ atMs }) => isBetween(atMs, 0, 60_000)));
});

test('a shared prompt comes first in every request, with an own beginning after it', (t) => {
  const { chats, oneOffs, tokens } = makeTraffic(1, { ...sizes, sharedTokens: 2_000 });
  const all = [...chats.map(({ opening }) => opening), ...oneOffs.map(({ messages }) => messages)];
  t.is(new Set(all.map(([first]) => first?.content)).size, 1);
  t.is(promptTokensOf(all[0]?.slice(0, 1) ?? []), 2_000);
  t.true(all.every(([first, second]) => first?.role === 'system' && second?.role === 'user'));
  t.is(new Set(all.map(([, second]) => second?.content)).size, all.length);
  const own = chats.reduce((sum, { opening, turns }) => {
    const said = turns.reduce((total, turn) => total + pieces(turn.said).length + turn.answerTokensMax, 0);
    return sum + promptTokensOf(opening.slice(1)) + said;
  }, 0);
  t.is(tokens, own + 2_000, 'and counts once');
});
