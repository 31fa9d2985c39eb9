import test from 'ava';
import { figuresOf } from './figures.ts';
import { runTraffic } from './run-traffic.ts';
import { startModelServers } from './start-model-servers.ts';
import { makeTraffic } from './traffic.ts';

const sizes = { chats: 3, turns: 3, oneOffShare: 1 / 3, sharedTokens: 0, spanMs: 600 };
const speed = { tokensPerSecond: 10_000, tokensPerWrite: 16 };
const prefixCache = { tokensMax: 1_000_000, uncachedTokensPerSecond: 100_000 };

test('a turn has the real answers of the turns before, and one server with a large cache reaches the ideal', async (t) => {
  await using servers = await startModelServers({ count: 1, slots: 8, ...speed, prefixCache });
  const traffic = makeTraffic(1, sizes);
  const sent = await runTraffic({ url: servers.urls[0] ?? '', headers: {} }, traffic);
  t.is(sent.length, 12);
  t.deepEqual(
    sent.filter(({ failure }) => failure !== undefined),
    [],
  );
  for (const { index, messages } of sent.filter(({ chat }) => chat === 1)) {
    const before = sent.filter((each) => each.chat === 1 && each.index < index).map(({ answer }) => answer);
    t.true(before.every((answer) => answer.startsWith('You said: ')));
    t.deepEqual(
      messages.filter(({ role }) => role === 'assistant').map(({ content }) => content),
      before,
    );
  }
  const calls = await servers.calls();
  t.deepEqual(calls.map(({ index }) => index).sort(), sent.map(({ index }) => index).sort());
  const figures = figuresOf({ sent, calls, servers: 1, slotsEach: 8 });
  t.true(figures.cached > 0.3);
  t.is(figures.cached, figures.ideal);
  t.is(figures.moved, 0);
});

test('a chat ends with a failed turn, which says why it failed', async (t) => {
  const traffic = makeTraffic(1, { ...sizes, oneOffShare: 0 });
  const sent = await runTraffic({ url: 'http://127.0.0.1:1', headers: {} }, traffic);
  t.is(sent.length, 3);
  t.true(sent.every(({ failure, firstTokenMs }) => failure?.includes('ECONNREFUSED') && firstTokenMs === undefined));
});
