import test from 'ava';
import { batchClaim, isAskedFor } from '../../../ingress/middleware/idempotency.ts';
import { storedBatch } from '../../support/stored-batch.ts';

test('a claim depends on account and key, and shows neither', (t) => {
  const claims = [
    { account: 'user:alice', idempotencyKey: 'order 17' },
    { account: 'user:alice', idempotencyKey: 'order 18' },
    { account: 'user:bob', idempotencyKey: 'order 17' },
    { account: 'user:alice order', idempotencyKey: '17' },
  ].map(batchClaim);
  t.is(new Set(claims).size, claims.length);
  for (const claim of claims) t.regex(claim, /^[\w-]{43}$/);
});

test('a batch is what a body asks for only if every field agrees', (t) => {
  const batch = storedBatch('user:alice', {
    endpoint: '/v1/embeddings',
    metadata: { run: '7', by: 'nightly' },
  });
  const body = {
    input_file_id: batch.inputFile,
    endpoint: '/v1/embeddings',
    completion_window: batch.completionWindow,
    metadata: { by: 'nightly', run: '7' },
  };
  t.true(isAskedFor(batch, body));
  const others = [
    { ...body, input_file_id: 'file-other' },
    { ...body, endpoint: '/v1/chat/completions' },
    { ...body, completion_window: '48h' },
    { ...body, metadata: { by: 'nightly' } },
    { ...body, metadata: null },
  ];
  for (const other of others) t.false(isAskedFor(batch, other), JSON.stringify(other));
  const plain = storedBatch('user:alice', { metadata: null });
  const { metadata: _, ...withoutMetadata } = { ...body, endpoint: plain.endpoint, input_file_id: plain.inputFile };
  t.true(isAskedFor(plain, withoutMetadata));
});
