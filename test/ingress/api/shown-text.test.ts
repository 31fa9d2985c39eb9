import test from 'ava';
import fc from 'fast-check';
import { makeKey } from '../../../ingress/authentication/api-key.ts';
import { shownText } from '../../../ingress/listener/json-body.ts';
import { sized } from '../../support/size.ts';

test('a path or name of usual length is shown unchanged', (t) => {
  for (const text of ['/v1/chat/completions', 'meta-llama/Llama-3.1-8B-Instruct', '/v1/models/%zz', '__proto__', '']) {
    t.is(shownText(text), text);
  }
});

test('invisible characters and overlong text are not shown', (t) => {
  t.is(shownText('/a b\n\u202e\u0000é<"'), '/a?b????<"');
  t.is(shownText(`/v1/${'x'.repeat(5_000)}/y`), `/v1/${'x'.repeat(40)}…`);
  t.is(shownText('/ab'.repeat(1_000)).length, 121);
});

test('a key is hidden if any of its characters are percent-encoded, even twice', (t) => {
  const key = makeKey();
  const encoded = (text: string) => text.replace(/./g, (char) => `%${char.charCodeAt(0).toString(16)}`);
  for (const hidden of [
    key.replace('_', '%5F'),
    key.replace('_', '%5f'),
    key.replace('_', '%255F'),
    encoded('svc') + key.slice(3),
    encoded(key),
    encoded(key).replaceAll('%', '%2525'),
  ]) {
    t.is(shownText(`/v1/keys/${hidden}/x`), '/v1/keys/svc_…/x');
  }
  t.is(shownText('/svc%5'), '/svc%5');
});

test('no key or token is shown at any position', (t) => {
  const key = makeKey();
  t.is(shownText(`/v1/keys/${key}`), '/v1/keys/svc_…');
  t.is(shownText(`x${key}y`), 'xsvc_…');
  const token = `eyJ${'a'.repeat(100)}.${'b'.repeat(300)}.${'c'.repeat(80)}`;
  t.true(shownText(`/v1/${token}`).length < 60);
  fc.assert(
    fc.property(fc.string({ maxLength: 200 }), fc.string({ maxLength: 200 }), (before, after) => {
      const shown = shownText(before + key + after);
      t.regex(shown, /^[\x21-\x7e…]*$/);
      t.true(shown.length <= 121);
      t.false(shown.includes(key.slice(4, 20)));
    }),
    { numRuns: sized(200, 2_000) },
  );
});
