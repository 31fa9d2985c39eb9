import test from 'ava';
import { byId, faultsIn, isId, isMeant } from '../faults/declared-faults.ts';
import { summary, tell, verdicts } from '../faults/tell-faults.ts';
import { notShown, tableIn, tableOf } from '../faults/when-down.ts';

const fault = (id: string) => ({ id, done: 'it is killed', promised: 'nothing is lost' });

test('faults are found in the text of a test, in either quotes', (t) => {
  const text = `
    faultTest(test, { id: '9a', done: 'it is killed', promised: 'nothing is lost' }, async () => {});
    for (const fault of [{ how: 1, id: 'B2', done: "Redis's end", promised:
      'still', x: 1 }, { id: 'no fault', done: 1 }]) {}
  `;
  t.deepEqual(faultsIn(text), [fault('9a'), { id: 'B2', done: "Redis's end", promised: 'still' }]);
});

test('faults are named by number and letter, and stand in that order', (t) => {
  t.deepEqual(['1', '24b', 'B5a', 'A1'].filter(isId), ['1', '24b', 'B5a', 'A1']);
  t.deepEqual(['', 'b', '9ab', 'C1', '9-a'].filter(isId), []);
  t.deepEqual(['B1', '10', '9b', 'A1', '9a', '9'].toSorted(byId), ['9', '9a', '9b', '10', 'A1', 'B1']);
  t.deepEqual(
    ['9', '9b', '19', '91'].filter((id) => isMeant(id, '9')),
    ['9', '9b'],
  );
  t.deepEqual(
    ['B5a', 'B5b', 'A1'].filter((id) => isMeant(id, 'B')),
    ['B5a', 'B5b'],
  );
});

test('a fault has failed where its test failed, did not end, or was never heard of', (t) => {
  const told = verdicts(['1', '2', '3', '4', '5'].map(fault), [
    { id: '1', is: 'begun', seen: [], ms: 0 },
    { id: '1', is: 'ok', seen: ['64 of 64'], ms: 1_500 },
    { id: '2', is: 'begun', seen: [], ms: 0 },
    { id: '2', is: 'FAILED', seen: ['one was lost'], ms: 10 },
    { id: '3', is: 'begun', seen: [], ms: 0 },
    { id: '5', is: 'not run', seen: ['there is none'], ms: 0 },
  ]);
  t.deepEqual(
    told.map(({ verdict }) => verdict),
    ['ok', 'FAILED', 'FAILED', 'FAILED', 'not run'],
  );
  t.is(summary(told), '5 faults: 1 ok, 3 FAILED (2, 3, 4), 1 not run');
  const [first] = told;
  if (first === undefined) return t.fail();
  t.is(
    tell(first),
    '1    ok, 1.5 s\n     done      it is killed\n     promised  nothing is lost\n     seen      64 of 64',
  );
});

test('a row is shown when every fault that it means has held, not one of them', (t) => {
  const rows = [{ shownBy: ['9', '17a'] }, { shownBy: ['4', '9'] }];
  const declared = ['9a', '9b', '9c', '17a', '17b'];
  const told = [
    { id: '9a', verdict: 'ok' as const },
    { id: '9b', verdict: 'not run' as const },
    { id: '17a', verdict: 'ok' as const },
    { id: '17b', verdict: 'FAILED' as const },
  ];
  t.deepEqual(notShown(rows, { told, declared }), ['9b', '9c', '4']);
  t.deepEqual(notShown([{ shownBy: ['17a'] }], { told, declared }), []);
});

test('the table stands between its marks', (t) => {
  const table = tableOf([{ away: 'a', newRequests: 'b', inFlight: 'c', shownBy: ['1', '2'] }]);
  t.regex(table, /\n\| a \| b \| c \| 1, 2 \|$/);
  t.is(tableIn(`x\n<!-- from npm run faults -->\n${table}\n<!-- to here -->\ny`), table);
  t.is(tableIn(table), undefined);
});
