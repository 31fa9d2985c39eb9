import test from 'ava';
import { createUploadPlaces } from '../../../ingress/files/upload-places.ts';

test('an account has as many uploads at once as it may, and one more when one has ended', (t) => {
  const places = createUploadPlaces({ uploadsMax: 10, ofAccountMax: 2 });
  const first = places.enter('user:a');
  places.enter('user:a');
  const refused = t.throws(() => places.enter('user:a'));
  t.like(refused, { code: 'rate_limit_exceeded', retryAfterMs: 1_000, fields: { type: 'concurrency_limit' } });
  places.enter('user:b');
  first.leave();
  places.enter('user:a');
  t.throws(() => places.enter('user:a'));
});

test('past what this ingress takes in everybody is 503 with a wait, until one has ended', (t) => {
  const places = createUploadPlaces({ uploadsMax: 3, ofAccountMax: 2 });
  const first = places.enter('user:a');
  places.enter('user:b');
  places.enter('user:c');
  t.like(
    t.throws(() => places.enter('user:d')),
    { code: 'SERVICE_UNAVAILABLE', retryAfterMs: 1_000 },
  );
  first.leave();
  places.enter('user:d');
  t.throws(() => places.enter('user:a'));
});
