import test from 'ava';
import { ulid } from 'ulid';
import { resultIdOf } from '../../../../shared/batches/batch.ts';
import { parsePlanFile } from '../../../../shared/plan-file/plan-file.ts';
import { isFileId } from '../../../../shared/store/file-store.ts';
import { batchJobOf, batchJobSchema, requestIdOf, resultFileOf } from '../../../../workers/batches/lines/batch-job.ts';
import { planText } from '../../../support/plan-text.ts';
import { readChat } from '../../../support/read-chat.ts';

test('the job of a line has exactly the fields that a worker reads', (t) => {
  const parsed = parsePlanFile(planText());
  if ('issues' in parsed) throw new Error(JSON.stringify(parsed.issues));
  const { models } = parsed.planFile;
  const [model = ''] = Object.keys(models);
  const value = { model, messages: [{ role: 'user', content: 'Hello' }], n: 2 };
  const { dropped: ___, ...call } = readChat({ value, text: JSON.stringify(value) }, models);
  const line = { requestId: 'req_1', line: 1, customId: 'one', number: 1, failures: 0, losses: 0, call };
  const job = batchJobOf({ id: 'batch_1', keyId: 'key_1', errorFormat: 'nested' }, line, {
    account: 'user:a',
    plan: 'free',
    tellTo: 'svc:1',
  });
  // Only of messages, which are not in batches, of an alias, and of a long prompt.
  const { headers: _, requestedModel: __, affinity: ____, ...fields } = batchJobSchema.shape;
  t.deepEqual(Object.keys(job).sort(), Object.keys(fields).sort());
  t.is(job.choices, 2);
});

test('derived ids are always the same, and differ within a batch', (t) => {
  const batch = `batch_${ulid()}`;
  const lines = Array.from({ length: 1_000 }, (_, index) => index + 1);
  const ids = [
    ...lines.map((line) => resultIdOf(batch, line)),
    ...lines.flatMap((line) => [1, 2].map((number) => requestIdOf(batch, line, number))),
    resultFileOf(batch, 'output'),
    resultFileOf(batch, 'error'),
  ];
  t.is(new Set(ids).size, ids.length);
  t.is(resultIdOf(batch, 7), resultIdOf(batch, 7));
  t.not(resultIdOf(batch, 7), resultIdOf(`batch_${ulid()}`, 7));
  t.regex(requestIdOf(batch, 7, 3), /^req_[0-9A-HJKMNP-TV-Z]{26}-3$/);
});

test('the ids of a batch’s files have the form of file ids, and sort by submission', (t) => {
  const [early, late] = [`batch_${ulid(1_700_000_000_000)}`, `batch_${ulid(1_700_000_000_001)}`];
  for (const kind of ['output', 'error'] as const) {
    t.true(isFileId(resultFileOf(early, kind)));
    t.true(resultFileOf(early, kind) < resultFileOf(late, 'output'));
  }
});
