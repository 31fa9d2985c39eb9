import { execFile } from 'node:child_process';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import { byId, faultsIn, isId, isMeant } from '../faults/declared-faults.ts';
import { describeFault, summary, verdicts } from '../faults/describe-faults.ts';
import { notesVariable, readNotes } from '../faults/fault-notes.ts';
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

test('faults have a number and a letter, and are sorted by them', (t) => {
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

test('a fault has failed if its test failed, did not end, or left no note', (t) => {
  const results = verdicts(['1', '2', '3', '4', '5'].map(fault), [
    { id: '1', is: 'begun', seen: [], ms: 0 },
    { id: '1', is: 'ok', seen: ['64 of 64'], ms: 1_500 },
    { id: '2', is: 'begun', seen: [], ms: 0 },
    { id: '2', is: 'FAILED', seen: ['one was lost'], ms: 10 },
    { id: '3', is: 'begun', seen: [], ms: 0 },
    { id: '5', is: 'not run', seen: ['no server'], ms: 0 },
  ]);
  t.deepEqual(
    results.map(({ verdict }) => verdict),
    ['ok', 'FAILED', 'FAILED', 'FAILED', 'not run'],
  );
  t.is(summary(results), '5 faults: 1 ok, 3 FAILED (2, 3, 4), 1 not run');
  const [first] = results;
  if (first === undefined) return t.fail();
  t.is(
    describeFault(first),
    '1    ok, 1.5 s\n     done      it is killed\n     promised  nothing is lost\n     seen      64 of 64',
  );
});

test('a row is shown only if every fault that it refers to has held', (t) => {
  const rows = [{ shownBy: ['9', '17a'] }, { shownBy: ['4', '9'] }];
  const declared = ['9a', '9b', '9c', '17a', '17b'];
  const results = [
    { id: '9a', verdict: 'ok' as const },
    { id: '9b', verdict: 'not run' as const },
    { id: '17a', verdict: 'ok' as const },
    { id: '17b', verdict: 'FAILED' as const },
  ];
  t.deepEqual(notShown(rows, { results, declared }), ['9b', '9c', '4']);
  t.deepEqual(notShown([{ shownBy: ['17a'] }], { results, declared }), []);
});

test('the table is between its marks', (t) => {
  const table = tableOf([{ unavailable: 'a', newRequests: 'b', inFlight: 'c', shownBy: ['1', '2'] }]);
  t.regex(table, /\n\| a \| b \| c \| 1, 2 \|$/);
  t.is(tableIn(`x\n<!-- from npm run faults -->\n${table}\n<!-- to here -->\ny`), table);
  t.is(tableIn(table), undefined);
});

const root = fileURLToPath(new URL('../../..', import.meta.url));

/** The notes of the fault tests in this text when AVA runs them. */
async function notesOf(t: ExecutionContext, text: string, env: { CI: string }) {
  const folder = await mkdtemp(join(tmpdir(), 'fault-notes-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  await writeFile(
    join(folder, 'package.json'),
    '{ "type": "module", "ava": { "extensions": ["ts"], "files": ["*.ts"] } }',
  );
  const head = `import test from 'ava';
    import { faultTest } from '${join(root, 'test/support/faults/fault-test.ts')}';
    const fault = (id) => ({ id, done: 'it is killed', promised: 'nothing is lost' });`;
  await writeFile(join(folder, 'faults.ts'), `${head}\n${text}`);
  const notes = join(folder, 'notes');
  await writeFile(notes, '');
  const code = await new Promise((resolve) => {
    const options = { cwd: folder, env: { ...process.env, ...env, [notesVariable]: notes } };
    const child = execFile(process.execPath, [join(root, 'node_modules/ava/entrypoints/cli.js')], options);
    child.once('exit', resolve);
  });
  return { notes: readNotes(notes), code };
}

test('a fault holds if AVA reports its test as passed, and has failed in every other case', async (t) => {
  t.timeout(60_000);
  const text = `
    faultTest(test, fault('1'), async (t, see) => { see('64 of 64'); t.pass(); });
    faultTest(test, fault('2'), async (t) => { t.pass(); t.is(1, 2); });
    faultTest(test, fault('3'), async (t) => { t.pass(); try { t.fail(); } catch {} });
    faultTest(test, fault('4'), async (t, see) => see('nothing is asserted'));
    faultTest(test, fault('5'), async (t) => { t.pass(); t.teardown(() => { throw new Error('left behind'); }); });
    faultTest(test, fault('6'), async (t) => { t.pass(); void t.notThrowsAsync(new Promise(() => {})); });
    faultTest(test, fault('7'), async (t) => { t.pass(); throw new Error('thrown'); });
    faultTest(test, fault('8'), async (t) => { t.timeout(50); t.pass(); await new Promise((end) => setTimeout(end, 1_000)); });
    faultTest(test, { ...fault('9'), notRun: 'no server' }, async (t) => t.pass());`;
  const { notes, code } = await notesOf(t, text, { CI: '' });
  const results = verdicts(['1', '2', '3', '4', '5', '6', '7', '8', '9'].map(fault), notes);
  t.deepEqual(
    results.map(({ id, verdict }) => [id, verdict]),
    [['1', 'ok'], ...['2', '3', '4', '5', '6', '7', '8'].map((id) => [id, 'FAILED']), ['9', 'not run']],
  );
  t.is(code, 1);
  t.deepEqual(
    [results[0], results[6], results[8]].map((one) => one?.seen),
    [['64 of 64'], ['thrown'], ['no server']],
  );
});

test('a fault that cannot run here has failed if CI=true, and is skipped otherwise', async (t) => {
  t.timeout(60_000);
  const text =
    "faultTest(test, { ...fault('1'), notRun: 'no server' }, async (t) => t.pass());\ntest('other', (t) => t.pass());";
  for (const [CI, verdict, expected] of [
    ['true', 'FAILED', 1],
    ['', 'not run', 0],
  ] as const) {
    const { notes, code } = await notesOf(t, text, { CI });
    t.like(verdicts([fault('1')], notes), { 0: { verdict, seen: ['no server'] }, length: 1 });
    t.is(code, expected);
  }
});
