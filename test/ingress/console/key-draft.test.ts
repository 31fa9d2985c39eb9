import test from 'ava';
import { changesOf, draftOf, emptyDraft, usualFiles } from '../../../ingress/console/keys/key-draft.ts';
import { endpointPaths, offeredPaths } from '../../../ingress/console/keys/key-restrictions.ts';
import { newKeyBody } from '../../../ingress/routes/key-fields.ts';
import type { Key } from '../../../ingress/routes/present-key.ts';
import { endpoints } from '../../../shared/endpoints/endpoints.ts';

/** With seconds, which the form does not show. */
const expiresAt = Date.UTC(2099, 0, 1, 12, 30, 15) / 1000;

const shown: Key = {
  id: 'key_01',
  object: 'key',
  name: 'a program',
  key: 'svc_abcdef****',
  default: false,
  purpose: null,
  state: 'active',
  created_at: 0,
  expires_at: expiresAt,
  valid_until: null,
  ended_at: null,
  last_used_at: null,
  endpoints: ['/v1/embeddings'],
  models: ['an-alias'],
  allowed_ips: ['192.0.2.1', '2001:db8::/32'],
  limits: { requests_per_minute: 5, tokens_per_minute: null, tokens_per_month: 1_000_000 },
  files: 'own',
  usage: { month: '2026-01', requests: 0, tokens: 0 },
};

test('a new key has the fields that were filled in, as the API takes them', (t) => {
  const named = changesOf({ ...emptyDraft, name: ' nightly ' }, emptyDraft);
  t.deepEqual(named, { name: 'nightly' });
  t.true(newKeyBody.safeParse(named).success);

  const filled = {
    name: 'nightly',
    expiresAt: '2099-01-01T12:30',
    endpoints: ['/v1/embeddings'],
    models: ['small-embed'],
    allowedIps: ' 192.0.2.1\n\n2001:db8::/32, 192.0.2.2 ',
    limits: { requests_per_minute: '5', tokens_per_minute: '', tokens_per_month: '1000000' },
    files: 'read',
  } as const;
  const all = changesOf(filled, emptyDraft);
  t.deepEqual(all, {
    name: 'nightly',
    expires_at: new Date(2099, 0, 1, 12, 30).getTime() / 1000,
    endpoints: ['/v1/embeddings'],
    models: ['small-embed'],
    allowed_ips: ['192.0.2.1', '2001:db8::/32', '192.0.2.2'],
    limits: { requests_per_minute: 5, tokens_per_month: 1_000_000 },
    files: 'read',
  });
  t.true(newKeyBody.safeParse(all).success);
});

test('a form that was not changed sends nothing, and else only what was changed', (t) => {
  const draft = draftOf(shown);
  t.deepEqual(changesOf(draft, draft), {});
  t.is(new Date(draft.expiresAt).getTime() / 1000, expiresAt - 15);
  t.is(draft.allowedIps, '192.0.2.1\n2001:db8::/32');
  t.deepEqual(changesOf({ ...draft, name: 'renamed' }, draft), { name: 'renamed' });
  const limits = { ...draft.limits, requests_per_minute: '6' };
  t.deepEqual(changesOf({ ...draft, limits }, draft), {
    limits: { requests_per_minute: 6, tokens_per_month: 1_000_000 },
  });
});

test('what was emptied is removed, and a list without a choice is not all of it', (t) => {
  const draft = draftOf(shown);
  t.deepEqual(changesOf({ ...emptyDraft, name: shown.name }, draft), {
    expires_at: null,
    endpoints: null,
    models: null,
    allowed_ips: null,
    limits: null,
  });
  t.deepEqual(changesOf({ ...draft, models: [] }, draft), { models: [] });
});

test('the files of a key follow its endpoints and models, until they are chosen', (t) => {
  const draft = draftOf(shown);
  t.is(draft.files, null);
  t.is(usualFiles(draft), 'own');
  t.is(usualFiles({ endpoints: null, models: ['an-alias'] }), 'own');
  t.is(usualFiles({ endpoints: null, models: null }), 'all');
  t.deepEqual(changesOf({ ...draft, files: 'none' }, draft), { files: 'none' });
  const chosen = draftOf({ ...shown, files: 'all' });
  t.is(chosen.files, 'all');
  t.deepEqual(changesOf({ ...chosen, files: null }, chosen), { files: null });
});

test('the form knows the paths of every endpoint, and offers those of the models', (t) => {
  const paths = Object.fromEntries(
    [...Map.groupBy(endpoints, ({ name }) => name)].map(([name, each]) => [name, each.map(({ path }) => path)]),
  );
  t.deepEqual({ ...endpointPaths }, paths);
  const model = { id: 'm', object: 'model' as const, created: 0, owned_by: 'service', tier: 'guest' };
  t.deepEqual(offeredPaths([{ ...model, endpoints: ['messages', 'chat'] }]), [
    '/v1/chat/completions',
    '/v1/messages',
    '/v1/messages/count_tokens',
  ]);
});
