import test from 'ava';
import { BackendError } from '../../../shared/endpoints/answers/backend-error.ts';
import type { InferenceJob } from '../../../shared/jobs/inference-job.ts';
import type { Backend } from '../../../shared/plan-file/plan-file.ts';
import type { CallLimit } from '../../../workers/backend-client/body-for.ts';
import { createCallLimits } from '../../../workers/failover/call-limits.ts';
import { jobFor } from '../../support/worker-side.ts';

const backend: Backend = { url: 'http://127.0.0.1:1/v1', location: 'on-prem' };
const refused = (words: string) => new BackendError('status', 'refused', { status: 400, said: { words, kinds: [] } });

/** The limits of the calls that are made for a job. `refusals`: what the backend answers to the first ones. */
async function sentFor(
  given: Partial<InferenceJob>,
  { context, refusals = [] }: { context?: number; refusals?: BackendError[] } = {},
  limits = createCallLimits({ contextOf: () => context }),
): Promise<CallLimit[]> {
  const sent: CallLimit[] = [];
  const left = [...refusals];
  await limits
    .ask({
      job: jobFor('replies', { promptEstimate: 1_000, ...given }),
      slot: { name: 'a', backend },
      signal: new AbortController().signal,
      hasText: () => false,
      async call(limit) {
        sent.push(limit);
        const refusal = left.shift();
        if (refusal !== undefined) throw refusal;
      },
    })
    .catch((error: unknown) => {
      if (!(error instanceof BackendError)) throw error;
    });
  return sent;
}

test('a client that sets no limit gets what is left of the context, for one prompt and if that is known', async (t) => {
  const context = 2_048;
  t.deepEqual(await sentFor({}), [{}]);
  t.deepEqual(await sentFor({}, { context }), [{ tokens: 1_048 }]);
  t.deepEqual(await sentFor({ outputTokensMax: 1_000 }, { context }), [{}], 'it has room for all');
  t.deepEqual(await sentFor({ limitFields: ['max_tokens'] }, { context }), [{}], 'the client has set it');
  t.deepEqual(await sentFor({ promptEstimate: 1_900 }, { context }), [{}], 'too little is left to be sure');
  t.deepEqual(await sentFor({ choices: 4 }, { context }), [{}], 'there may be several prompts');
});

test('a backend that refuses prompt and limit together is asked once more, with what its refusal leaves', async (t) => {
  const tooLong = refused(
    "This model's maximum context length is 2048 tokens. However, you requested 5096 tokens (1000 in the messages, 4096 in the completion). Please reduce the length of the messages or completion.",
  );
  t.deepEqual(await sentFor({}, { refusals: [tooLong, tooLong] }), [{}, { tokens: 1_048 }]);
  t.deepEqual(await sentFor({ limitFields: ['max_tokens'] }, { refusals: [tooLong] }), [{}]);
});

test('a backend that refuses the field is asked once more with the other one, which is remembered', async (t) => {
  const wrongField = refused(
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
  );
  const limits = createCallLimits({ contextOf: () => undefined });
  t.deepEqual(await sentFor({}, { refusals: [wrongField, wrongField] }, limits), [
    {},
    { field: 'max_completion_tokens' },
  ]);
  t.deepEqual(await sentFor({}, {}, limits), [{ field: 'max_completion_tokens' }]);
  t.deepEqual(await sentFor({ model: 'another' }, {}, limits), [{}], 'of this model');
  t.deepEqual(await sentFor({}, { refusals: [refused('Hello')] }), [{}], 'another refusal');
});
