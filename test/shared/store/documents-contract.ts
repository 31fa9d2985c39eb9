import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import fc from 'fast-check';
import { z } from 'zod';
import { storedDate } from '../../../shared/json/stored-values.ts';
import {
  type Collection,
  type Documents,
  type IndexValue,
  type OpenDocuments,
  type Query,
  valueAt,
} from '../../../shared/store/documents.ts';
import { failsWith } from './store-contract.ts';

const thingSchema = z.object({
  id: z.string(),
  owner: z.string(),
  kind: z.enum(['a', 'b', 'c']),
  size: z.object({ bytes: z.int() }).optional(),
  counts: z.record(z.string(), z.object({ bytes: z.int() })).optional(),
  isOpen: z.boolean(),
  at: storedDate.optional(),
  claim: z.string().optional(),
  marked: z.string().optional(),
  body: z.string().nullable(),
  parts: z.array(z.object({ id: z.string(), code: z.string().optional() })),
  words: z.array(z.string()),
  uses: z.record(z.string(), storedDate).default({}),
});
export type Thing = z.infer<typeof thingSchema>;

export const things = {
  name: 'things',
  schema: thingSchema,
  id: 'id',
  text: 'body',
  atOnce: 7,
  indexes: {
    byKind: { fields: ['owner', 'kind'] },
    byTime: { fields: ['owner', 'at'] },
    bySize: { fields: ['size.bytes'] },
    byState: { fields: ['isOpen', 'kind'], also: ['size.bytes', 'at'] },
    byClaim: { fields: ['claim'], isUnique: true },
    marked: { fields: ['marked'], isSparse: true, also: ['kind'] },
    byCode: { list: 'parts', field: 'code', isUnique: true },
    byPart: { list: 'parts', field: 'id', having: 'code' },
    byWord: { list: 'words' },
  },
  uses: { field: 'uses', index: 'byPart' },
} as const satisfies Collection;

type Things = Documents<Thing, keyof typeof things.indexes>;
type Home = AsyncDisposable & { open: OpenDocuments };
type Contract = {
  test: (title: string, prove: (t: ExecutionContext) => Promise<void>) => void;
  createHome: () => Promise<Home>;
};

/** The guarantees of documents in every database, for a collection with every kind of index. */
export function testDocumentsContract({ test, createHome }: Contract): void {
  const prove = (title: string, proof: (t: ExecutionContext, documents: Things) => Promise<void>) =>
    test(title, async (t) => {
      await using home = await createHome();
      await proof(t, home.open(things));
    });
  prove('a document is found as it was written, with nothing else', keepsDocuments);
  prove('of documents with a taken id or a taken value, only the first is inserted', refusesTaken);
  prove('a change creates, writes or removes a document, or leaves it, as it decides', changes);
  prove('a value of another document is refused, and nothing changes', refusesTakenInChange);
  prove('an addition is made to all of its numbers, if they are there and have room, or to none', adds);
  prove('every list has exactly the documents that the query asks for, in the order of its index', listsAsModel);
  prove('every tally counts, sums and finds the minimum', talliesAsModel);
  prove('an index over a list finds the documents with a value in it', findsInLists);
  prove('a value that left its list is found no more, and can be another document\u2019s', freesValues);
  prove('times of uses move only forward, and leave with their values', keepsUses);
  prove('a list ends once its texts are long', endsByLength);
  prove('documents are removed in pieces, within a range', removesPieces);
}

/** The same under concurrency, for serial tests, because they make many calls at once. */
export function testDocumentRacesContract({ test, createHome }: Contract): void {
  test('each of 60 changes at once is made on the result of another one', async (t) => {
    await using home = await createHome();
    const [one, other] = [home.open(things), home.open(things)];
    const changing = Array.from({ length: 60 }, (_, number) =>
      (number % 2 === 0 ? one : other).change('thing', (kept = thingOf('thing')) => {
        const bytes = (kept.size?.bytes ?? 0) + 1;
        return { result: bytes, next: { ...kept, size: { bytes } } };
      }),
    );
    const results = await Promise.all(changing);
    t.deepEqual(
      results.toSorted((a, b) => a - b),
      results.map((_, index) => index + 1),
    );
  });

  test('of two removals at once none says that nothing is left while something is', async (t) => {
    await using home = await createHome();
    const [one, other] = [home.open(things), home.open(things)];
    await one.insert(Array.from({ length: 90 }, (_, number) => thingOf(`t${number}`)));
    const remove = async (documents: Things) => {
      while ((await documents.removeSome('byKind', { is: ['ann'], limit: 10 })) > 0);
      return (await documents.list('byKind', { is: ['ann'] })).length;
    };
    t.deepEqual(await Promise.all([remove(one), remove(other), remove(one)]), [0, 0, 0]);
  });

  test('a document that is used between the decision and its removal is decided on again', async (t) => {
    await using home = await createHome();
    const documents = home.open(things);
    const left: number[] = [];
    for (let round = 0; round < 20; round += 1) {
      await documents.insert([thingOf('thing', { parts: [{ id: 'p', code: 'c' }] })]);
      const used = new Date(1_000 + round);
      const [isRemoved] = await Promise.all([
        documents.change('thing', (kept) =>
          kept !== undefined && Object.keys(kept.uses).length === 0
            ? { result: true, isRemoved: true }
            : { result: false },
        ),
        afterTurns(round % 10).then(() => documents.noteUses([{ id: 'thing', value: 'p', at: used }])),
      ]);
      const found = await documents.find('thing');
      t.deepEqual(found?.uses, isRemoved ? undefined : { p: used });
      left.push(Number(isRemoved));
      await documents.remove(['thing']);
    }
    t.log(`${left.filter(Boolean).length} of 20 were removed before their use`);
  });
}

async function afterTurns(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) await nextTurn();
}

export function thingOf(id: string, fields: Partial<Thing> = {}): Thing {
  return { id, owner: 'ann', kind: 'a', isOpen: true, body: null, parts: [], words: [], uses: {}, ...fields };
}

async function keepsDocuments(t: ExecutionContext, documents: Things): Promise<void> {
  const thing = thingOf('名前 \'"$set', {
    ...{ owner: 'a.b$c%', size: { bytes: 3 }, at: new Date(5), claim: '$ne', marked: '', body: '{"$a": 1}' },
    parts: [{ id: 'p', code: 'c' }, { id: 'q' }],
    words: ['x', 'x', '%'],
  });
  t.is(await documents.find(thing.id), undefined);
  t.deepEqual(await documents.insert([{ ...thing, secret: 'not a field' } as Thing]), []);
  t.deepEqual(await documents.find(thing.id), thing);
  t.deepEqual(await documents.findAll([thing.id, 'none', thing.id]), new Map([[thing.id, thing]]));
  t.deepEqual(await documents.findAll([]), new Map());
  await documents.insert([thingOf('plain')]);
  t.deepEqual(await documents.find('plain'), thingOf('plain'));
  await documents.remove(['plain', 'none']);
  await documents.remove(['plain']);
  t.is(await documents.find('plain'), undefined);
  await t.throwsAsync(documents.insert([{ ...thing, id: 'bad', kind: 'z' as 'a' }]), { instanceOf: z.ZodError });
  t.is(await documents.find('bad'), undefined);
}

async function refusesTaken(t: ExecutionContext, documents: Things): Promise<void> {
  t.deepEqual(await documents.insert([]), []);
  const first = thingOf('one', { claim: 'taken', body: 'the first' });
  t.deepEqual(await documents.insert([first, thingOf('one'), thingOf('two')]), ['one']);
  t.deepEqual(await documents.insert([thingOf('three', { claim: 'taken' }), thingOf('four')]), ['three']);
  t.deepEqual(await documents.find('one'), first);
  t.is(await documents.find('three'), undefined);
  t.deepEqual([...(await documents.findAll(['one', 'two', 'four'], { isCertain: true })).keys()].sort(), [
    'four',
    'one',
    'two',
  ]);
  const coded = (id: string) => thingOf(id, { parts: [{ id: 'p', code: 'k' }] });
  t.deepEqual(await documents.insert([coded('five'), coded('six'), thingOf('seven')]), ['six']);
  t.is(await documents.find('six'), undefined);
  const many = Array.from({ length: 250 }, (_, number) => thingOf(`many ${number}`));
  t.deepEqual(await documents.insert([...many, thingOf('one')]), ['one']);
  t.is((await documents.list('byKind', { is: ['ann'], limit: 1_000 })).length, 255);
}

async function changes(t: ExecutionContext, documents: Things): Promise<void> {
  t.is(await documents.change('thing', (kept) => ({ result: kept })), undefined);
  t.is(await documents.change('thing', () => ({ result: 'none', isRemoved: true })), 'none');
  t.is(await documents.find('thing'), undefined);
  const thing = thingOf('thing', { size: { bytes: 1 }, at: new Date(1), body: 'text' });
  t.is(await documents.change('thing', () => ({ result: 'made', next: thing })), 'made');
  t.deepEqual(await documents.find('thing'), thing);
  const { at: _, size: __, ...rest } = thing;
  await documents.change('thing', (kept) => {
    t.deepEqual(kept, thing);
    return { result: undefined, next: { ...rest, body: null } };
  });
  t.deepEqual(await documents.find('thing'), { ...rest, body: null }, 'fields that are gone are removed');
  const failing = documents.change('thing', () => {
    throw new RangeError('a decision that fails');
  });
  await t.throwsAsync(failing, { instanceOf: RangeError });
  t.is(await documents.change('thing', () => ({ result: 'gone', isRemoved: true })), 'gone');
  t.is(await documents.find('thing'), undefined);
  t.deepEqual(await documents.list('byKind', { is: ['ann'] }), []);
}

async function refusesTakenInChange(t: ExecutionContext, documents: Things): Promise<void> {
  const [one, two] = [thingOf('one', { claim: 'c', parts: [{ id: 'p', code: 'k' }] }), thingOf('two', { claim: 'd' })];
  await documents.insert([one, two]);
  for (const fields of [{ claim: 'c' }, { parts: [{ id: 'q' }, { id: 'q', code: 'k' }] }]) {
    const change = (id: string) =>
      documents.change(id, (kept) => ({ result: undefined, next: { ...(kept ?? thingOf(id)), ...fields } }));
    await failsWith(t, 'INTERNAL_ERROR', change('two'));
    await failsWith(t, 'INTERNAL_ERROR', change('three'));
  }
  t.deepEqual([await documents.find('one'), await documents.find('two')], [one, two]);
  t.is(await documents.find('three'), undefined);
  t.deepEqual(await documents.list('byCode', { is: ['k'] }), [one]);
  const swap = (id: string, claim: string) =>
    documents.change(id, (kept = thingOf(id)) => ({ result: undefined, next: { ...kept, claim } }));
  await swap('one', 'e');
  await swap('two', 'c');
  t.is((await documents.list('byClaim', { is: ['c'] }))[0]?.id, 'two');
}

async function adds(t: ExecutionContext, documents: Things): Promise<void> {
  const counts = { one: { bytes: 5 }, two: { bytes: 1 } };
  await documents.insert([thingOf('thing', { size: { bytes: 6 }, counts })]);
  const add = (amounts: Record<string, number>, maxima: Record<string, number> = {}) =>
    documents.add('thing', amounts, maxima);
  t.true(await add({ 'size.bytes': 4, 'counts.one.bytes': 4 }, { 'size.bytes': 10 }));
  t.false(await add({ 'size.bytes': 1, 'counts.two.bytes': 1 }, { 'size.bytes': 10 }), 'more than its maximum');
  t.false(await add({ 'size.bytes': 1, 'counts.three.bytes': 1 }), 'not there');
  t.true(await add({ 'counts.two.bytes': 3_000_000_000 }, { 'counts.two.bytes': 3_000_000_001 }));
  t.false(await documents.add('none', { 'size.bytes': 1 }, {}));
  const after = { one: { bytes: 9 }, two: { bytes: 3_000_000_001 } };
  t.deepEqual(await documents.find('thing'), thingOf('thing', { size: { bytes: 10 }, counts: after }));
  t.is((await documents.list('bySize', { from: 10 })).length, 1);
}

const times = [undefined, 1, 2, 3].map((at) => at && new Date(at));
const arbitraryThing = fc.record({
  owner: fc.constantFrom('ann', 'bob', 'é'),
  kind: fc.constantFrom('a', 'b', 'c'),
  isOpen: fc.boolean(),
  at: fc.constantFrom(...times),
  bytes: fc.constantFrom(undefined, 0, 2, 10, 11),
  isMarked: fc.boolean(),
});

/** The same things in each database, whose ids sort by the order of bytes only. */
const drawn: Thing[] = fc
  .sample(arbitraryThing, { numRuns: 120, seed: 7 })
  .map(({ at, bytes, isMarked, ...fields }, number) => {
    const id = `${['', 'a', 'A', 'é', '名'][number % 5]}${(number * 37) % 120}`;
    const more = {
      ...(at && { at }),
      ...(bytes !== undefined && { size: { bytes } }),
      ...(isMarked && { marked: id }),
    };
    return thingOf(id, { ...fields, ...more } as Partial<Thing>);
  });

type Asked = { index: 'id' | keyof typeof things.indexes; query: Query };

const pick = <Item>(...items: Item[]) => fc.constantFrom(...items);
const range = (...values: IndexValue[]) => ({
  from: pick(undefined, undefined, ...values),
  to: pick(undefined, undefined, ...values),
  before: pick(undefined, undefined, ...values),
});
const queryOf = (index: Asked['index'], is: fc.Arbitrary<Query['is']>, ...values: IndexValue[]) =>
  fc
    .record({
      ...range(...values),
      is,
      after: pick(undefined, undefined, ...drawn.slice(0, 20)),
      order: pick('asc' as const, 'desc' as const, undefined),
      limit: pick(1, 6, 7, 8, 30, 500),
    })
    .map((query): Asked => ({ index, query }));

const asked = fc.oneof(
  queryOf('id', pick(undefined), 'a', 'a5', 'é', '名2'),
  queryOf('byKind', pick<Query['is']>(['ann'], [['bob', 'ann', 'none']]), 'a', 'b', 'c'),
  queryOf(
    'byKind',
    pick<Query['is']>(
      ['ann', 'a'],
      ['bob', ['c', 'a']],
      [
        ['é', 'ann'],
        ['a', 'b'],
      ],
      [[]],
    ),
    'a5',
    'é',
  ),
  queryOf('byTime', pick<Query['is']>(['ann'], [['ann', 'é']]), new Date(1), new Date(2), new Date(9)),
  queryOf('bySize', pick(undefined), 0, 2, 10),
  queryOf('byState', pick<Query['is']>([true], [false], [[true, false]]), 'a', 'b'),
  queryOf('marked', pick(undefined), 'a', 'é1'),
);

function fieldsOf(index: Asked['index']): readonly string[] {
  if (index === 'id') return ['id'];
  const spec = things.indexes[index];
  return 'fields' in spec ? spec.fields : [];
}

function compare(one: unknown, other: unknown): number {
  if (typeof one === 'string' && typeof other === 'string') return Buffer.compare(Buffer.from(one), Buffer.from(other));
  return Number(one) - Number(other);
}

/** What a list should find. */
function expected({ index, query }: Asked): Thing[] {
  const { is = [], from, to, before, after, order, limit } = query;
  const fields = fieldsOf(index);
  const next = fields[is.length] ?? 'id';
  const sign = order === 'desc' ? -1 : 1;
  const byPlace = (one: Thing, other: Thing) =>
    sign * (compare(valueAt(one, next), valueAt(other, next)) || compare(one.id, other.id));
  const isWanted = (thing: Thing) => {
    const value = valueAt(thing, next);
    return (
      value !== undefined &&
      is.every((values, number) => [values].flat().includes(valueAt(thing, fields[number] ?? '') as IndexValue)) &&
      (from === undefined || compare(value, from) >= 0) &&
      (to === undefined || compare(value, to) <= 0) &&
      (before === undefined || compare(value, before) < 0) &&
      (after === undefined || byPlace(thing, after as Thing) > 0)
    );
  };
  return drawn.filter(isWanted).toSorted(byPlace).slice(0, limit);
}

async function listsAsModel(t: ExecutionContext, documents: Things): Promise<void> {
  await documents.insert(drawn);
  const hasPlace = ({ index, query: { is = [], after } }: Asked) =>
    after === undefined || valueAt(after, fieldsOf(index)[is.length] ?? 'id') !== undefined;
  // Documents without the field that orders a list are in it or not, as the database has it.
  const isDefined = ({ index, query: { is = [], from } }: Asked) =>
    from !== undefined || index === 'marked' || !['at', 'size.bytes'].includes(fieldsOf(index)[is.length] ?? 'id');
  let found = 0;
  for (const each of fc.sample(asked.filter(hasPlace).filter(isDefined), { numRuns: 400, seed: 11 })) {
    const listed = await documents.list(each.index, each.query);
    const ids = listed.map(({ id }) => id);
    t.deepEqual(
      ids,
      expected(each).map(({ id }) => id),
      JSON.stringify(each),
    );
    const picked = await documents.listFields(each.index, ['id', 'kind'], each.query);
    t.deepEqual(
      picked,
      expected(each).map(({ id, kind }) => ({ id, kind })),
      JSON.stringify(each),
    );
    found += listed.length;
  }
  t.true(found > 1_000, `${found} documents were found`);
}

async function talliesAsModel(t: ExecutionContext, documents: Things): Promise<void> {
  t.deepEqual(await documents.tally('byState', { is: [true], by: 'kind', sum: 'size.bytes' }), []);
  await documents.insert(drawn);
  const tallies = await documents.tally('byState', {
    is: [[true, false]],
    by: 'kind',
    sum: 'size.bytes',
    least: 'at',
  });
  const found = tallies.map(({ value, count, sum, least }) => [value, count, sum, storedDate.parse(least)]);
  const wanted = ['a', 'b', 'c'].map((kind) => {
    const ofKind = drawn.filter((thing) => thing.kind === kind);
    const bytes = ofKind.reduce((sum, { size }) => sum + (size?.bytes ?? 0), 0);
    const least = Math.min(...ofKind.flatMap(({ at }) => at?.getTime() ?? []));
    return [kind, ofKind.length, bytes, new Date(least)];
  });
  t.deepEqual(found.toSorted(), wanted);
  const [all] = await documents.tally('byState', { is: [true] });
  t.is(all?.count, drawn.filter(({ isOpen }) => isOpen).length);
  const marked = await documents.tally('marked', { by: 'kind' });
  t.is(
    marked.reduce((sum, { count }) => sum + count, 0),
    drawn.filter((thing) => thing.marked !== undefined).length,
  );
}

async function findsInLists(t: ExecutionContext, documents: Things): Promise<void> {
  const one = thingOf('one', { words: ['ann', 'anna'], parts: [{ id: 'p', code: 'c1' }, { id: 'q' }] });
  const two = thingOf('two', { words: ['bob', 'an'], parts: [{ id: 'p', code: 'c2' }] });
  await documents.insert([two, one, thingOf('three', { parts: [{ id: 'p' }] }), thingOf('four')]);
  const idsBy = async (index: 'byWord' | 'byPart' | 'byCode', query: Query) =>
    (await documents.list(index, query)).map(({ id }) => id);
  t.deepEqual(await idsBy('byWord', { is: ['ann'] }), ['one']);
  t.deepEqual(await idsBy('byWord', { is: [['bob', 'anna', 'none']] }), ['one', 'two']);
  t.deepEqual(await idsBy('byWord', { is: [[]] }), []);
  t.deepEqual(await idsBy('byWord', { from: 'an', to: 'anz' }), ['one', 'two'], 'each once');
  t.deepEqual(await idsBy('byWord', { from: 'c' }), []);
  t.deepEqual(await idsBy('byWord', { from: 'anb', to: 'bo' }), ['one'], 'one word must be in the range');
  t.deepEqual(await idsBy('byWord', {}), ['one', 'two'], 'all that have any');
  t.deepEqual(await idsBy('byPart', { is: ['p'] }), ['one', 'two'], 'only with a code');
  t.deepEqual(await idsBy('byPart', { is: ['q'] }), []);
  t.deepEqual(await idsBy('byPart', { is: ['p'], after: { id: 'one' }, limit: 1 }), ['two']);
  t.deepEqual(await idsBy('byPart', { is: ['p'], order: 'desc' }), ['two', 'one']);
  t.deepEqual(await idsBy('byCode', { is: [['c2', 'c3']] }), ['two']);
  await t.throwsAsync(idsBy('byCode', { after: { id: 'one' } }), { message: /is one page/ }, 'it has no order');
  t.deepEqual(await documents.listFields('byWord', ['words'], { is: ['an'] }), [{ words: ['bob', 'an'] }]);
}

async function freesValues(t: ExecutionContext, documents: Things): Promise<void> {
  const parts = [{ id: 'p', code: 'c' }];
  await documents.insert([thingOf('one', { parts }), thingOf('two')]);
  await documents.change('one', (kept) => ({ result: undefined, ...(kept && { next: { ...kept, parts: [] } }) }));
  t.deepEqual(await documents.list('byCode', { is: ['c'] }), []);
  t.deepEqual(await documents.find('one'), thingOf('one'));
  await documents.change('two', (kept) => ({ result: undefined, ...(kept && { next: { ...kept, parts } }) }));
  t.deepEqual(await documents.list('byCode', { is: ['c'] }), [thingOf('two', { parts })]);
  await documents.remove(['two']);
  t.deepEqual(await documents.insert([thingOf('three', { parts })]), []);
}

async function keepsUses(t: ExecutionContext, documents: Things): Promise<void> {
  const parts = [{ id: 'p', code: 'c' }, { id: 'q', code: 'd' }, { id: 'r' }];
  await documents.insert([thingOf('thing', { parts, uses: { p: new Date(99) } })]);
  t.deepEqual((await documents.find('thing'))?.uses, {}, 'a document is not written with uses');
  const note = (value: string, at: number, id = 'thing') => ({ id, value, at: new Date(at) });
  await documents.noteUses([]);
  await documents.noteUses([
    note('p', 7),
    note('p', 9),
    note('p', 8),
    note('q', 3),
    note('r', 3),
    note('p', 1, 'none'),
  ]);
  const uses = { p: new Date(9), q: new Date(3) };
  t.deepEqual(await documents.find('thing'), thingOf('thing', { parts, uses }));
  t.is(await documents.find('none'), undefined);
  await documents.change('thing', (kept = thingOf('thing')) => {
    return { result: undefined, next: { ...kept, isOpen: false, uses: {} } };
  });
  t.deepEqual((await documents.find('thing'))?.uses, uses, 'a change does not undo a use');
  await documents.change('thing', (kept = thingOf('thing')) => ({
    result: undefined,
    next: { ...kept, parts: [{ id: 'p' }, { id: 'q', code: 'd' }] },
  }));
  t.deepEqual((await documents.find('thing'))?.uses, { q: new Date(3) });
  await documents.change('thing', (kept = thingOf('thing')) => ({ result: undefined, next: { ...kept, parts } }));
  t.deepEqual((await documents.find('thing'))?.uses, { q: new Date(3) }, 'a use does not come back');
}

async function endsByLength(t: ExecutionContext, documents: Things): Promise<void> {
  const long = 'x'.repeat(400_000);
  const all = Array.from({ length: 9 }, (_, number) => thingOf(`t${number}`, { body: number === 4 ? null : long }));
  t.deepEqual(await documents.insert(all), []);
  const ids = async (charactersMax?: number) => {
    const query = charactersMax === undefined ? {} : { charactersMax };
    return (await documents.list('id', query)).map(({ id }) => id);
  };
  t.deepEqual(
    await ids(),
    all.map(({ id }) => id),
  );
  t.deepEqual(await ids(1), ['t0']);
  t.deepEqual(await ids(400_001), ['t0', 't1']);
  t.deepEqual(await ids(1_700_000), ['t0', 't1', 't2', 't3', 't4', 't5']);
  t.is((await documents.find('t8'))?.body, long);
}

async function removesPieces(t: ExecutionContext, documents: Things): Promise<void> {
  await documents.insert(Array.from({ length: 9 }, (_, number) => thingOf(`t${number}`, { at: new Date(number) })));
  const query = { is: ['ann'], from: new Date(2), before: new Date(7) };
  t.is(await documents.removeSome('byTime', { ...query, limit: 3 }), 3);
  t.is(await documents.removeSome('byTime', { ...query, limit: 3 }), 2);
  t.is(await documents.removeSome('byTime', { ...query, limit: 3 }), 0);
  t.deepEqual(
    (await documents.list('id', {})).map(({ id }) => id),
    ['t0', 't1', 't7', 't8'],
  );
  t.is(await documents.removeSome('id', { from: 't1', to: 't7', limit: 9 }), 2);
}
