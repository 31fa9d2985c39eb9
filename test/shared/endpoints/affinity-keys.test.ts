import test from 'ava';
import { createAffinityKeys } from '../../../shared/endpoints/affinity-keys.ts';
import { endpointAt } from '../../../shared/endpoints/endpoints.ts';
import { parsePlanFile } from '../../../shared/plan-file/plan-file.ts';
import { planFileFor } from '../../stack/plan.ts';

type Message = { role: string; content: unknown };

const backends = {
  a: { url: 'http://127.0.0.1:1/v1', location: 'on-prem' as const },
  b: { url: 'http://127.0.0.1:2/v1', location: 'on-prem' as const },
  cloud: { url: 'http://127.0.0.1:3/v1', location: 'cloud' as const },
  salted: { url: 'http://127.0.0.1:4/v1', location: 'on-prem' as const, cache_salt: true },
};
const model = (names: readonly string[], more = {}) => ({ tier: 'guest', pool: 'default', backends: names, ...more });
const models = {
  chat: model(['a', 'b', 'cloud']),
  salted: model(['a', 'salted']),
  account: model(['a', 'b'], { affinity: 'account' }),
  none: model(['a', 'b'], { affinity: 'none' }),
  single: model(['a', 'cloud', 'a']),
};
const parsed = parsePlanFile(planFileFor({ backends, models }));
if ('issues' in parsed) throw new Error(JSON.stringify(parsed.issues));
const { planFile } = parsed;
const keysUnder = (pepper: string | undefined) => {
  const affinityKeys = createAffinityKeys(pepper);
  return (request: object, { path = '/v1/chat/completions', of = 'chat', account = 'user:a' } = {}) =>
    affinityKeys(endpointAt(path), request, { planFile, model: of, account }).keys;
};
const keys = keysUnder('pepper');
const words = (count: number, seed = 'w') => Array.from({ length: count }, (_, index) => `${seed}${index}`).join(' ');
const user = (content: unknown): Message => ({ role: 'user', content });
const assistant = (content: unknown): Message => ({ role: 'assistant', content });
const system = (content: unknown): Message => ({ role: 'system', content });
const [long, question, answer] = [words(400), 'How are you?', words(40, 'answer')];
const chat = (...messages: Message[]) => ({ messages });
const deepest = (...messages: Message[]) => keys(chat(...messages)).at(-1);

test('each turn of a chat has the same keys, of its system messages and of what comes before the first answer', (t) => {
  const first = [system(long), user(question)];
  const turns = [first, [...first, assistant(answer), user('And?')], [...first, assistant(answer), user(words(5_000))]];
  const all = turns.map((messages) => keys(chat(...messages)));
  t.is(all[0]?.length, 2);
  t.deepEqual(all, [all[0], all[0], all[0]]);
  for (const key of all.flat()) t.regex(key, /^[\w-]{11}$/);
  t.is(keys(chat(system(long), user('Another question'))).at(0), all[0]?.[0], 'the system message is the same');
  t.not(deepest(system(long), user('Another question')), all[0]?.[1]);
  t.deepEqual(keys({ ...chat(...first), temperature: 1, seed: 4, stream: true }), all[0], 'no part of the prompt');
});

test('what a model reads before the messages is the head: tools, and system or developer messages', (t) => {
  const tool = { type: 'function', function: { name: 'look', description: long } };
  const [head, opening] = keys({ ...chat(user(question)), tools: [tool] });
  t.not(head, opening);
  t.deepEqual(keys({ ...chat(user('Another')), tools: [tool] })[0], head);
  t.not(keys({ ...chat(user('Another')), tools: [{ ...tool, strict: true }] })[0], head);
  const developer = { role: 'developer', content: long };
  t.is(keys(chat(developer, user('one')))[0], keys(chat(developer, user('other')))[0]);
  t.not(keys(chat(developer, user('one')))[0], keys(chat(system(long), user('one')))[0], 'the role is a part of it');
});

test('the opening ends before the first answer, also after several messages and after a greeting of the assistant', (t) => {
  const opening = [user(long), user(question)];
  t.is(keys(chat(...opening)).length, 2, 'each message of it is a boundary');
  t.deepEqual(keys(chat(...opening)), keys(chat(...opening, assistant(answer), user('And?'))));
  const greeted = [assistant(long), user(question)];
  t.not(deepest(...greeted), deepest(assistant(long), user('Another question')));
  t.is(deepest(...greeted), deepest(...greeted, assistant(answer), user('And?')));
  const many = Array.from({ length: 9 }, (_, index) => user(words(300, `${index}-`)));
  t.is(keys(chat(system(long), ...many)).length, 5, 'the head and the last four boundaries');
  t.is(keys(chat(system(long), ...many)).at(-1), deepest(system(long), ...many, assistant(answer), user('And?')));
});

test('a prompt of less than 1,024 characters has no keys; a chat has one from the message on with which it is longer', (t) => {
  const exactly = (characters: number) => user('x'.repeat(characters - 'user\n'.length));
  t.deepEqual(keys(chat(exactly(1_023))), []);
  t.is(keys(chat(exactly(1_024))).length, 1);
  const grown = [user(question), assistant(answer), user(words(200))];
  t.deepEqual(keys(chat(...grown.slice(0, 1))), []);
  t.is(keys(chat(...grown)).length, 1);
  const later = [...grown, assistant(long), user(long), assistant(long), user('And?')];
  t.deepEqual(keys(chat(...later)), keys(chat(...grown)), 'and it stays the same');
});

test('a long message has boundaries at 4,096 characters and their doublings, so that prompts with one document share them', (t) => {
  const document = words(12_000);
  t.true(document.length > 65_536);
  const [one, other] = [keys(chat(user(`${document} one?`))), keys(chat(user(`${document} other?`)))];
  t.is(one.length, 4, 'at 16, 32 and 64 KiB, and its end');
  t.deepEqual(one.slice(0, 3), other.slice(0, 3));
  t.not(one[3], other[3]);
  const lengthOf = (characters: number) => keys(chat(user('x'.repeat(characters - 'user\n'.length)))).length;
  t.deepEqual([4_096, 4_097, 8_192, 8_193, 16_385].map(lengthOf), [1, 2, 2, 3, 4]);
  t.is(
    keys(
      chat(
        user([
          { type: 'text', text: document },
          { type: 'text', text: ' one?' },
        ]),
      ),
    ).at(-1),
    one[3],
    'in parts',
  );
});

test('the last mark of a client (cache_control) is the deepest boundary, except at the end, where it moves on', (t) => {
  const path = '/v1/messages';
  const mark = { cache_control: { type: 'ephemeral' } };
  const part = (text: string, more = {}) => ({ type: 'text', text, ...more });
  const asked = (last: string, more = {}) => user([part(long, mark), part(last, more)]);
  const of = (...messages: Message[]) => keys({ system: [part(long, mark)], ...chat(...messages) }, { path });
  const [plain, marked] = [of(user([part(long), part('one')])), of(asked('one'))];
  t.is(plain.length, 2);
  t.is(marked.length, 2);
  t.not(plain[1], marked[1]);
  t.deepEqual(of(asked('other')), marked, 'what follows the mark does not count');
  t.deepEqual(of(asked('one', mark)), marked);
  t.deepEqual(of(asked('one'), assistant(answer), user([part('And?', mark)])), marked);
  t.deepEqual(of(user([part(long), part('one', mark)])), plain);
  t.deepEqual(of(user([part(long), part('one')]), assistant(answer), user([part('And?', mark)])), plain);
});

test('every endpoint that generates text has keys of its prompt, and the others have none', (t) => {
  const of = (path: string, request: object) => keys(request, { path });
  const messages = { system: long, tools: [{ name: 'look' }], ...chat(user(question)) };
  t.is(of('/v1/messages', messages).length, 2);
  t.is(of('/v1/messages', { ...messages, system: `${long}.` })[0] === of('/v1/messages', messages)[0], false);
  const input = [
    { type: 'message', role: 'user', content: [{ type: 'input_text', text: question }] },
    { type: 'function_call', name: 'look', arguments: '{}', call_id: '1' },
    { type: 'function_call_output', call_id: '1', output: long },
  ];
  const opened = of('/v1/responses', { instructions: long, input: input.slice(0, 1) });
  t.is(opened.length, 2);
  t.deepEqual(of('/v1/responses', { instructions: long, input }), opened, 'a call of a tool is an answer');
  t.deepEqual(of('/v1/responses', { input: long }), of('/v1/responses', { input: [user(long)] }));
  t.deepEqual(of('/v1/messages/count_tokens', messages), []);
  t.deepEqual(of('/v1/embeddings', { input: long }), []);
  t.deepEqual(of('/v1/rerank', { query: long, documents: [long] }), []);
});

test('a completion continues an earlier one: its boundaries are at 1,024 characters and their doublings, never its end', (t) => {
  const of = (prompt: unknown) => keys({ prompt }, { path: '/v1/completions' });
  const text = words(2_000);
  t.deepEqual(
    [1_024, 1_025, 2_048, 2_049, 8_193].map((end) => of(text.slice(0, end)).length),
    [0, 1, 1, 2, 4],
  );
  t.deepEqual(of(text.slice(0, 3_000)), of(text.slice(0, 4_000)));
  t.deepEqual(of([text, 'another']), of(text));
  const ids = Array.from({ length: 2_000 }, (_, index) => index);
  t.is(of(ids).length, 4);
  t.deepEqual(of([ids, [1]]), of(ids));
  t.deepEqual([of([]), of([[]]), of('')], [[], [], []]);
});

test('prompt_cache_key is the only key where it is sent, and belongs to its account', (t) => {
  const named = { ...chat(user(long)), prompt_cache_key: 'thread-1' };
  t.is(keys(named).length, 1);
  t.deepEqual(keys({ ...chat(user(question)), prompt_cache_key: 'thread-1' }), keys(named));
  t.notDeepEqual(keys(named, { account: 'user:b' }), keys(named));
  for (const unset of ['', null, undefined])
    t.deepEqual(keys({ ...named, prompt_cache_key: unset }), keys(chat(user(long))));
});

test('prompts of two accounts share keys, unless a backend of the model has a salt for each account', (t) => {
  const request = chat(system(long), user(question));
  t.deepEqual(keys(request, { account: 'user:b' }), keys(request));
  const salted = keys(request, { of: 'salted' });
  t.is(salted.length, 2);
  for (const key of keys(request, { of: 'salted', account: 'user:b' })) t.false(salted.includes(key));
});

test('affinity of a model: by account any request of it has the same key; none, or one backend on-prem, has no keys', (t) => {
  const byAccount = keys(chat(user(question)), { of: 'account' });
  t.is(byAccount.length, 1);
  t.deepEqual(keys({ ...chat(user(long)), prompt_cache_key: 'x' }, { of: 'account' }), byAccount);
  t.deepEqual(keys({ input: 'text' }, { of: 'account', path: '/v1/embeddings' }), byAccount);
  t.notDeepEqual(keys(chat(user(question)), { of: 'account', account: 'user:b' }), byAccount);
  for (const name of ['none', 'single', 'gone']) t.deepEqual(keys(chat(user(long)), { of: name }), []);
});

test('keys differ with the secret, and there are none without one', (t) => {
  const request = chat(system(long), user(question));
  const other = keysUnder('another pepper')(request);
  for (const key of keys(request)) t.false(other.includes(key));
  t.deepEqual(keysUnder(undefined)(request), []);
});

test('media and opaque texts of any size, and any valid form of a message, give keys', (t) => {
  const image = (data: string) => ({ type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } });
  const [one, other] = ['A', 'B'].map((last) => deepest(user([image('A'.repeat(5_000_000) + last), { type: 'text' }])));
  t.truthy(one);
  t.not(one, other);
  for (const content of [null, '', [], [null], ['text'], [{ type: 'text', text: null }]])
    t.deepEqual(keys(chat(user(content))), []);
});

test('a first turn is one in which no model has answered yet; a text, a name and an account may be continued', (t) => {
  const affinityKeys = createAffinityKeys('pepper');
  const isFirst = (request: object, { path = '/v1/chat/completions', of = 'chat' } = {}) =>
    affinityKeys(endpointAt(path), request, { planFile, model: of, account: 'user:a' }).isFirstTurn;
  t.true(isFirst(chat(system(long), user(question))));
  t.true(isFirst(chat(assistant(answer), user(long))), 'a greeting is no answer');
  t.false(isFirst(chat(system(long), user(question), assistant(answer), user('And?'))));
  t.false(isFirst({ input: [user(long), { type: 'function_call' }] }, { path: '/v1/responses' }));
  t.false(isFirst({ prompt: long }, { path: '/v1/completions' }));
  t.false(isFirst({ ...chat(user(long)), prompt_cache_key: 'thread' }));
  t.false(isFirst(chat(user(long)), { of: 'account' }));
});
