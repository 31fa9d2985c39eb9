import test from 'ava';
import { parsePlanFile } from '../../../../shared/plan-file/plan-file.ts';
import { batchJobOf, batchJobSchema } from '../../../../workers/batches/lines/batch-job.ts';
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
  // Only of messages, which are not in batches, and of an alias.
  const { headers: _, requestedModel: __, ...fields } = batchJobSchema.shape;
  t.deepEqual(Object.keys(job).sort(), Object.keys(fields).sort());
  t.is(job.choices, 2);
});
