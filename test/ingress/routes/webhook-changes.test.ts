import test from 'ava';
import { changeFields, rotateSecret } from '../../../ingress/routes/webhook-changes.ts';
import { endpointOf } from '../../shared/store/webhook-records.ts';

const now = Date.parse('2026-12-06T00:00:00Z');
const day = 86_400_000;
const quotaTold = { '2026-12': 95 };
const present = { now, quotaTold };

test('only the given fields are replaced', (t) => {
  const before = endpointOf();
  t.deepEqual(changeFields(before, {}, present), before);
  t.deepEqual(changeFields(before, { description: 'other' }, present), { ...before, description: 'other' });
});

test('failures from before an endpoint was enabled, or of another address, do not count', (t) => {
  const before = endpointOf();
  const [url, enabledAt] = ['https://other.example.com/', new Date(now)];
  t.deepEqual(changeFields(before, { url }, present), { ...before, url, enabledAt });
  t.deepEqual(changeFields(before, { url: before.url, enabled: true }, present), before);
  const disabled = endpointOf({ enabled: false, disabledReason: 'failing' });
  t.deepEqual(changeFields(disabled, { url }, present), { ...disabled, url, enabledAt }, 'it is still disabled');
  const { disabledReason: _, ...others } = disabled;
  t.deepEqual(changeFields(disabled, { enabled: true }, present), { ...others, enabled: true, enabledAt, quotaTold });
});

test('an endpoint that subscribes to the quota has no events of thresholds that have passed', (t) => {
  const before = endpointOf({ events: ['key.expiring'] });
  t.deepEqual(changeFields(before, { events: ['quota.threshold'] }, present).quotaTold, quotaTold);
  const subscribed = endpointOf();
  t.deepEqual(changeFields(subscribed, { events: ['quota.threshold'] }, present).quotaTold, subscribed.quotaTold);
});

test('an old secret signs for a day from its own rotation, and at most three old ones do', (t) => {
  let endpoint = endpointOf({ secrets: [{ sealed: 'a' }] });
  endpoint = rotateSecret(endpoint, { sealed: 'b', now });
  endpoint = rotateSecret(endpoint, { sealed: 'c', now: now + 1 });
  const until = new Date(now + day);
  t.deepEqual(endpoint.secrets, [
    { sealed: 'c' },
    { sealed: 'b', until: new Date(now + 1 + day) },
    { sealed: 'a', until },
  ]);
  t.deepEqual(
    rotateSecret(endpoint, { sealed: 'd', now: now + day }).secrets.map(({ sealed }) => sealed),
    ['d', 'c', 'b'],
  );
  for (const sealed of ['d', 'e']) endpoint = rotateSecret(endpoint, { sealed, now: now + 2 });
  t.deepEqual(
    endpoint.secrets.map(({ sealed }) => sealed),
    ['e', 'd', 'c', 'b'],
  );
});
