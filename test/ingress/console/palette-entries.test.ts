import test from 'ava';
import { type PaletteEntry, paletteEntries } from '../../../ingress/console/palette-entries.ts';

const docsUrl = 'https://docs.example';
const goalOf = (entry: PaletteEntry) =>
  'href' in entry ? entry.href : 'does' in entry ? entry.does : `asks ${entry.asks}`;
const entries = (typed: string, isOperator = false) =>
  paletteEntries(typed, { isOperator, docsUrl }).map((entry) => [entry.title, goalOf(entry)]);

test('a page is found by its title first, and by other words for it', (t) => {
  t.deepEqual(entries('ke')[0], ['Keys', '#keys']);
  t.deepEqual(entries('playground'), [['Try it', '#try-it']]);
  t.deepEqual(entries('QUOTA'), [['Usage', '#usage']]);
  t.deepEqual(entries('docum'), [['Documentation', docsUrl]]);
  t.deepEqual(entries('nothing like this'), []);
});

test('an id leads to the own request or batch, and for operators first to that of any account', (t) => {
  const id = 'req_01KBN4V4W0R2E9Z6Y5QH3T8MXA';
  t.deepEqual(entries(` ${id} `)[0]?.[1], `#requests/${id}`);
  t.deepEqual(entries('chatcmpl-123')[0]?.[1], '#requests/chatcmpl-123');
  t.deepEqual(entries('batch_01')[0]?.[1], '#batches/batch_01');
  const goals = (typed: string) => entries(typed, true).map(([, goal]) => goal);
  t.deepEqual(goals(id), [`#find/${id}`, `#requests/${id}`, `#find?${id}`]);
  t.deepEqual(goals('batch_01').slice(0, 2), ['#find/batch_01', '#batches/batch_01']);
});

test('an action is found by some of its words', (t) => {
  t.deepEqual(entries('create key'), [['Create a key', '#keys?new']]);
  t.deepEqual(entries('sign'), [['Sign out', 'sign out']]);
  t.deepEqual(entries('my account'), [['Copy my account name', 'copy the account']]);
  t.deepEqual(entries('suspend of'), []);
  t.deepEqual(entries('change the plan', true)[0], ['Change the plan of …', 'asks plan']);
  t.deepEqual(entries('pause', true)[0], ['Pause a backend …', '#fleet']);
});

test('an action of an account asks for the account, which is found by its id or its name', (t) => {
  const found = [
    { kind: 'account', id: 'user:ada', account: 'user:ada', name: 'Ada Lovelace' },
    { kind: 'key', id: 'svc_123456', account: 'user:ada', name: 'Ada Lovelace' },
  ] as const;
  const context = { isOperator: true, docsUrl, found };
  t.deepEqual(
    paletteEntries('ada', { ...context, asking: 'plan' }).map((entry) => [entry.title, entry.hint, goalOf(entry)]),
    [['user:ada', 'Ada Lovelace', '#accounts/user%3Aada?plan']],
  );
  t.deepEqual(
    paletteEntries('lovelace', context).map((entry) => [entry.title, entry.hint, goalOf(entry)]),
    [
      ['user:ada', 'Ada Lovelace', '#accounts/user%3Aada'],
      ['svc_123456', 'key of Ada Lovelace', '#accounts/user%3Aada'],
      ['Find "lovelace"', 'in all accounts', '#find?lovelace'],
    ],
  );
});

test('only operators find the pages for operators', (t) => {
  t.deepEqual(entries('audit'), []);
  t.deepEqual(entries('audit', true)[0], ['Audit trail', '#audit']);
  t.deepEqual(entries(`svc_${'x'.repeat(38)}`, true), [['Find "svc_xxxxxx"', '#find?svc_xxxxxx']]);
});
