import test from 'ava';
import { opensPalette, paletteEntries, paletteKeys } from '../../../ingress/console/command-palette.ts';

const entries = (typed: string, isOperator = false) =>
  paletteEntries(typed, { isOperator, docsUrl: 'https://docs.example' }).map(({ title, href }) => [title, href]);

test('a page is found by its title first, and by other words for it', (t) => {
  t.deepEqual(entries('ke')[0], ['Keys', '#keys']);
  t.deepEqual(entries('playground'), [['Try it', '#try-it']]);
  t.deepEqual(entries('QUOTA'), [['Usage', '#usage']]);
  t.deepEqual(entries('docum'), [['Documentation', 'https://docs.example']]);
  t.deepEqual(entries('nothing like this'), []);
});

test('an id leads to its request or batch', (t) => {
  t.deepEqual(entries(' req_01KBN4V4W0R2E9Z6Y5QH3T8MXA ')[0]?.[1], '#requests/req_01KBN4V4W0R2E9Z6Y5QH3T8MXA');
  t.deepEqual(entries('chatcmpl-123')[0]?.[1], '#requests/chatcmpl-123');
  t.deepEqual(entries('batch_01')[0]?.[1], '#batches/batch_01');
});

test('only operators find the pages for operators', (t) => {
  t.deepEqual(entries('audit'), []);
  t.deepEqual(entries('audit', true)[0], ['Audit trail', '#audit']);
  t.deepEqual(entries(`svc_${'x'.repeat(38)}`, true), [['Find "svc_xxxxxx"', '#find?svc_xxxxxx']]);
});

test('the keys are those of the platform', (t) => {
  const pressed = (keys: object) => ({
    key: 'k',
    ctrlKey: false,
    metaKey: false,
    altKey: false,
    shiftKey: false,
    ...keys,
  });
  const opens = (keys: object, platform: string) => opensPalette(pressed(keys) as KeyboardEvent, platform);
  t.true(opens({ ctrlKey: true }, 'Linux x86_64'));
  t.true(opens({ metaKey: true, key: 'K' }, 'MacIntel'));
  t.false(opens({ ctrlKey: true }, 'MacIntel'), 'there it deletes to the end of the line');
  t.false(opens({ ctrlKey: true, shiftKey: true }, 'Win32'));
  t.false(opens({ ctrlKey: true, key: 'j' }, 'Win32'));
  t.is(paletteKeys('MacIntel'), '⌘K');
  t.is(paletteKeys('Win32'), 'Ctrl K');
});
