import test from 'ava';
import { opensPalette, paletteKeys, shortcutOf } from '../../../ingress/console/shortcuts.ts';

const pressed = (keys: object) => ({
  ...{ key: 'k', ctrlKey: false, metaKey: false, altKey: false, shiftKey: false },
  ...keys,
});

test('the keys of the palette are those of the platform', (t) => {
  const opens = (keys: object, platform: string) => opensPalette(pressed(keys), platform);
  t.true(opens({ ctrlKey: true }, 'Linux x86_64'));
  t.true(opens({ metaKey: true, key: 'K' }, 'MacIntel'));
  t.false(opens({ ctrlKey: true }, 'MacIntel'), 'there it deletes to the end of the line');
  t.false(opens({ ctrlKey: true, shiftKey: true }, 'Win32'));
  t.false(opens({ ctrlKey: true, key: 'j' }, 'Win32'));
  t.is(paletteKeys('MacIntel'), '⌘K');
  t.is(paletteKeys('Win32'), 'Ctrl K');
});

test('g and a key go to a page that the user may see, and other keys do nothing', (t) => {
  const does = (keys: object, afterG = false, isOperator = false) => shortcutOf(pressed(keys), afterG, isOperator);
  t.is(does({ key: 'g' }), 'g');
  t.deepEqual(does({ key: 'k' }, true), { page: 'keys' });
  t.deepEqual(does({ key: 's' }, true, true), { page: 'service' });
  t.is(does({ key: 's' }, true), undefined);
  t.is(does({ key: 'k' }), undefined);
  t.is(does({ key: 'x' }, true), undefined);
  t.is(does({ key: 'toString' }, true), undefined);
  t.is(does({ key: 'g', ctrlKey: true }), undefined);
  t.is(does({ key: '?', shiftKey: true }), 'list');
});
