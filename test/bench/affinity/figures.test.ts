import test from 'ava';
import { promptTokensOf } from '../../stack/model-server.ts';
import { figuresOf, movesOf } from './figures.ts';
import { cachedShare, idealOf } from './ideal.ts';
import type { SentRequest } from './run-traffic.ts';
import type { ServerCall } from './start-model-servers.ts';

const text = (word: string, tokens: number) => Array.from({ length: tokens }, (_, at) => `${word}${at % 10}`).join(' ');
const user = (content: string) => ({ role: 'user' as const, content });
const assistant = (content: string) => ({ role: 'assistant' as const, content });
const request = (index: number, change: Partial<SentRequest> = {}): SentRequest => ({
  ...{ index, chat: undefined, messages: [user(text('one', 40))], answer: text('two', 24), sentAt: index },
  ...{ firstTokenMs: 10 * (index + 1), failure: undefined, ...change },
});
const call = (index: number, server: number, change: Partial<ServerCall> = {}): ServerCall => ({
  ...{ index, server, requestId: `req_${index}`, promptTokens: 100, cachedTokens: 50, completionTokens: 10 },
  ...{ state: 'completed', atOnce: 1, startedAt: 1_000, endedAt: 2_000, ...change },
});

test('the ideal has everything cached that was sent or answered before, in the order of sending', (t) => {
  const first = request(0);
  const history = [...first.messages, assistant(first.answer)];
  const next = request(1, { messages: [...history, user(text('six', 20))] });
  const other = request(2, { messages: [user(text('ten', 40))] });
  t.deepEqual(
    [...idealOf([first, next, other])],
    [
      [0, { promptTokens: 40, cachedTokens: 0 }],
      [1, { promptTokens: 84, cachedTokens: 64 }],
      [2, { promptTokens: 40, cachedTokens: 0 }],
    ],
  );
  t.is(promptTokensOf(history), 64);
  t.is(idealOf([next, first]).get(0)?.cachedTokens, 32, 'all but its last, incomplete block');
  t.is(cachedShare([...idealOf([first, next, other]).values()]), 64 / 164);
});

test('a turn has moved if another server answered it than the turn before; one-off requests do not move', (t) => {
  const sent = [request(0, { chat: 1 }), request(1, { chat: 1 }), request(2, { chat: 1 }), request(3), request(4)];
  const calls = [call(0, 5), call(1, 5), call(2, 6), call(3, 5), call(4, 6)];
  t.deepEqual(movesOf(sent, calls), [
    { from: 5, to: 5, sentAt: 1 },
    { from: 5, to: 6, sentAt: 2 },
  ]);
  t.is(movesOf(sent, calls.slice(0, 2)).length, 1, 'a turn without a call is not judged');
});

test('figures of a run', (t) => {
  const sent = [request(0, { chat: 1 }), request(1, { chat: 1 }), request(2), request(3, { failure: '503' })];
  const calls = [
    call(0, 0, { cachedTokens: 0 }),
    call(1, 0, { cachedTokens: 80, endedAt: 4_000, atOnce: 3 }),
    call(2, 1, { cachedTokens: 0, startedAt: 4_000, endedAt: 5_000 }),
    call(3, 0, { cachedTokens: 0 }),
  ];
  const figures = figuresOf({ sent, calls, servers: 2, slotsEach: 8 });
  t.like(figures, { cached: 80 / 400, cachedOfTurns: 80 / 200, moved: 0, failed: 1, failure: '503', atOnce: 3 });
  t.is(figures.mostCalls, 3 / 2);
  t.is(figures.mostTime, 5_000 / 3_000);
  t.is(figures.slots, 6_000 / (2 * 8 * 4_000));
  t.is(figures.seconds, 4);
  t.deepEqual([figures.firstTokenP50Ms, figures.firstTokenP99Ms], [30, 40]);
  t.is(figures.idealOfTurns, 32 / 80);
});
