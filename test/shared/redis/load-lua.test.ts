import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import test from 'ava';
import { createReadNumbers, intOf, loadLua, loadScript, wordOf, wordsOf } from '../../../shared/redis/load-lua.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';

let own: RedisDatabase;
let folder: string;

test.before(async () => {
  own = await openRedisDatabase();
  folder = await mkdtemp(join(tmpdir(), 'inference-lua-'));
});

test.after.always(async () => {
  await own?.[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

/** The URL of a script with these lines. */
async function scriptOf(name: string, ...lines: string[]): Promise<URL> {
  const path = join(folder, `${name}.lua`);
  await writeFile(path, `${lines.join('\n')}\n`);
  return pathToFileURL(path);
}

test('a script has its keys, arguments and constants as locals of their names', async (t) => {
  await scriptOf('part', "local function join(a, b) return a .. '+' .. b end");
  const url = await scriptOf(
    'named',
    '#!lua',
    "local clock = redis.call('TIME')",
    '-- include part',
    'return {oneKey, otherKey, join(text, number), limit, mode, #clock}',
  );
  const script = loadLua(url, { keys: 'oneKey otherKey', args: 'text number', constants: { limit: 5, mode: 'm' } });
  const given = { number: 7, otherKey: 'b', text: 'x', oneKey: 'a' };
  t.deepEqual(await loadScript(own.redis, script)(given), ['a', 'b', 'x+7', 5, 'm', 2]);
});

test('what is left out is nil, wherever it stands, and is not sent at the end', async (t) => {
  const url = await scriptOf(
    'optional',
    '#!lua',
    "return {oneKey, tostring(midKey), tostring(endKey), text, tostring(mid), tostring(last), #KEYS .. ' ' .. #ARGV}",
  );
  const run = loadScript(own.redis, loadLua(url, { keys: 'oneKey midKey? endKey?', args: 'text mid? last?' }));
  const given = { oneKey: 'a', text: '' };
  t.deepEqual(await run(given), ['a', 'nil', 'nil', '', 'nil', 'nil', '1 1']);
  t.deepEqual(await run({ ...given, midKey: undefined, mid: undefined }), await run(given));
  t.deepEqual(await run({ ...given, endKey: 'c', last: 0 }), ['a', 'nil', 'c', '', 'nil', '0', '3 3']);
  t.deepEqual(await run({ ...given, midKey: 'b', mid: 'm' }), ['a', 'b', 'nil', '', 'm', 'nil', '2 2']);
});

test('a call has the names of its script, or it is not compiled', async (t) => {
  const url = await scriptOf('typed', '#!lua', 'return oneKey .. text');
  const run = loadScript(own.redis, loadLua(url, { keys: 'oneKey', args: 'text last? ...items' }));
  t.is(await run({ oneKey: 'a', text: 'b', items: [] }), 'ab');
  const wrong = [
    // @ts-expect-error `text` is missing
    () => run({ oneKey: 'a', items: [] }),
    // @ts-expect-error a list is missing
    () => run({ oneKey: 'a', text: 'b' }),
    // @ts-expect-error a key is text
    () => run({ oneKey: 1, text: 'b', items: [] }),
    // @ts-expect-error no such name
    () => run({ oneKey: 'a', text: 'b', items: [], other: 1 }),
  ];
  t.is(wrong.length, 4);
});

test('a list has all that follows, also none', async (t) => {
  const url = await scriptOf('lists', '#!lua', "return table.concat(keys, ',') .. ' ' .. table.concat(items, ',')");
  const run = loadScript(own.redis, loadLua(url, { keys: '...keys', args: 'first ...items' }));
  t.is(await run({ keys: ['a', 'b'], first: 0, items: [1, Buffer.from('two'), '3'] }), 'a,b 1,two,3');
  t.is(await run({ keys: [], first: 0, items: [] }), ' ');
  const many = Array.from({ length: 10_000 }, (_, index) => index);
  t.is(await run({ keys: ['a'], first: 0, items: many }), `a ${many.join(',')}`);
});

test('the numbers of an answer have the same names in the script and in its reader', async (t) => {
  const numbers = { sum: 'used reserved', time: 'now' } as const;
  const url = await scriptOf(
    'numbers',
    '#!lua',
    "local sum, time = {reserved = -2, used = 9007199254740991}, {now = '1'}",
    "return string.format('counted $sum $time', valuesOf.sum(sum), valuesOf.time(time))",
  );
  const [outcome, ...words] = wordsOf(await loadScript(own.redis, loadLua(url, { keys: '', numbers }))({}));
  t.is(outcome, 'counted');
  t.deepEqual(createReadNumbers(numbers.sum)(words), { used: Number.MAX_SAFE_INTEGER, reserved: -2 });
  t.throws(() => createReadNumbers(numbers.sum)(['1']), { message: /missing/ });
});

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
