import test from 'ava';
import { embeddingBytesWritten, writeEmbeddings } from '../../stack/model-server.ts';
import { describeResult } from '../describe-result.ts';
import { exceededLimits } from '../judge.ts';
import { runAttack } from '../run-attack.ts';
import { holdTogether } from './hold.ts';
import { askedEmbeddings } from './holding.ts';

const beside = 1_000;
const reached = [
  ...['requests_limit', 'concurrency_limit', 'settings_limit', 'batch_limit'].map((limit) => `429 ${limit}`),
  ...[
    'batches beyond waiting tokens',
    'batches beyond their number',
    'answers left',
    'bodies left',
    'webhooks not answered',
  ],
];

/** `npm run attack -- hold` is the same for longer, by plan, and also compares how long others wait. */
test('an account and a network of guests at all their limits: others are all answered and counted, with the memory that we ship', async (t) => {
  t.timeout(240_000);
  for (const body of askedEmbeddings) writeEmbeddings(body);
  const written = embeddingBytesWritten();
  const result = await runAttack({ ...holdTogether, forMs: 10_000, reaches: reached }, beside);
  t.log(describeResult(result));
  t.deepEqual(exceededLimits({ ...result.observed, waits: {} }), []);
  t.true((result.observed.waits.callers?.during.answers ?? 0) > 0);
  t.true(embeddingBytesWritten() - written < 500_000, 'model servers wrote the large answers before the attack');
  const got = Object.keys(result.tally);
  for (const one of reached) t.true(got.includes(one), `${one}: ${got}`);
});
