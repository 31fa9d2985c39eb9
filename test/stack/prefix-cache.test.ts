import test from 'ava';
import { asMessage, promptOf, promptTokensOf } from './model-server/model/text.ts';
import { blockNamesOf, blockTokens, createPrefixCache } from './model-server/prefix-cache.ts';

/** This many blocks of tokens, which differ from those of any other name. */
const blocks = (name: string, count: number) =>
  Array.from({ length: count * blockTokens }, (_, index) => `${name}${index}`);
const sequence = (prompt: readonly string[], ...answers: string[][]) => ({
  prompt,
  answers: answers.length === 0 ? [[]] : answers,
});
const roomy = () => createPrefixCache({ tokensMax: 1_000 * blockTokens });

test('a block has 16 tokens, and only whole blocks have names', (t) => {
  t.is(blockTokens, 16);
  const tokens = blocks('a', 3);
  t.is(blockNamesOf(tokens.slice(0, 15)).length, 0);
  t.is(blockNamesOf(tokens.slice(0, 16)).length, 1);
  t.is(blockNamesOf(tokens.slice(0, 47)).length, 2);
  t.deepEqual(blockNamesOf(tokens.slice(0, 32)), blockNamesOf(tokens).slice(0, 2));
});

test('the name of a block depends on the block and on everything before it', (t) => {
  const [first, second] = [blocks('a', 1), blocks('b', 1)];
  const names = [...blockNamesOf([...first, ...second]), ...blockNamesOf([...second, ...second])];
  t.is(new Set(names).size, 4);
  const joined = ['ab', 'c', ...blocks('x', 1)];
  const cut = ['a', 'bc', ...blocks('x', 1)];
  t.notDeepEqual(blockNamesOf(joined), blockNamesOf(cut), 'and on where its tokens are cut');
});

test('only the longest run of first blocks is cached', (t) => {
  const cache = roomy();
  const [a, b, c] = [blocks('a', 2), blocks('b', 1), blocks('c', 2)];
  cache.keep(sequence([...a, ...b, ...c]));
  t.is(cache.read([...a, ...b, ...c, 'more']), 5 * 16);
  t.is(cache.read([...a, ...b, 'more']), 3 * 16);
  t.is(cache.read([...a, ...blocks('x', 1), ...c]), 2 * 16, 'a later block does not count after a gap');
  t.is(cache.read([...b, ...c]), 0, 'and not in another place');
  t.is(cache.read([...a.slice(0, 20), ...blocks('x', 1)]), 16, 'nor does a part of a block');
});

test('at least one token of a prompt is computed', (t) => {
  const cache = roomy();
  const prompt = blocks('a', 2);
  cache.keep(sequence(prompt));
  t.is(cache.read(prompt), 16);
  t.is(cache.read([...prompt, 'one']), 32);
  t.is(cache.read([]), 0);
});

test('the answers are kept as well, and each of several', (t) => {
  const cache = roomy();
  const prompt = blocks('a', 1).slice(0, 10);
  const [one, other] = [blocks('b', 1), blocks('c', 1)];
  cache.keep(sequence(prompt, one, other));
  t.is(cache.read([...prompt, ...one, ...blocks('d', 1)]), 16, '26 tokens are one whole block');
  t.is(cache.read([...prompt, ...other, ...blocks('d', 1)]), 16);
});

test('it holds no more blocks than its size, and evicts those first that were used least recently', (t) => {
  const cache = createPrefixCache({ tokensMax: 4 * blockTokens + 15 });
  const [a, b, c] = [blocks('a', 2), blocks('b', 2), blocks('c', 2)];
  cache.keep(sequence(a));
  cache.keep(sequence(b));
  t.is(cache.size(), 4 * 16);
  t.is(cache.read([...a, 'more']), 32);
  cache.keep(sequence(c));
  t.is(cache.size(), 4 * 16);
  t.is(cache.read([...b, 'more']), 0, 'a was read later than b');
  t.is(cache.read([...a, 'more']), 32);
  t.is(cache.read([...c, 'more']), 32);
});

test('of one sequence the last blocks are evicted first', (t) => {
  const cache = createPrefixCache({ tokensMax: 4 * blockTokens });
  const a = blocks('a', 3);
  cache.keep(sequence(a));
  cache.keep(sequence(blocks('b', 2)));
  t.is(cache.read([...a, 'more']), 2 * 16);
  cache.keep(sequence(blocks('c', 9)));
  t.is(cache.read([...blocks('c', 9), 'more']), 4 * 16, 'also of one that is larger than the cache');
});

test('the same text of another role is other tokens, and the tokens are those that are counted', (t) => {
  const content = 'the same text for each role, in some words';
  const prompts = ['system', 'user'].map((role) => promptOf([{ role, content }]));
  const [ofSystem = [], ofUser = []] = prompts;
  t.notDeepEqual(ofSystem, ofUser);
  t.deepEqual(ofSystem.slice(1), ofUser.slice(1));
  t.notDeepEqual(blockNamesOf([...ofSystem, ...blocks('a', 1)]), blockNamesOf([...ofUser, ...blocks('a', 1)]));
  const messages = [
    { role: 'system', content },
    { role: 'user', content: '' },
    { role: 'user', content: [{ type: 'text', text: content }, { type: 'image_url' }] },
  ];
  t.is(promptOf(messages).length, promptTokensOf(messages));
  t.deepEqual(asMessage('assistant', []), []);
});
