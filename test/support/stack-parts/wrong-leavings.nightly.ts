import test from 'ava';
import { countPromptTokens, countTokens } from '../../../workers/failover/count-tokens.ts';
import { usageRecord } from '../../shared/store/usage-records.ts';
import { answerTo } from '../truth/ask.ts';
import type { BackendCall } from '../truth/contradictions.ts';
import { type Gone, goneIn, wrongLeavingsIn } from '../truth/wrong-leavings.ts';

const path = '/v1/chat/completions';
const question = 'Who is there?';
const answer = answerTo({ path, question });
const beginning = (tokens: number) => answer.slice(0, tokens).join('');
const messages = [{ role: 'user', content: question }];
const promptTokens = await countPromptTokens({ endpoint: path, payload: JSON.stringify({ messages }) });

const stream: Gone = { ending: 'left', requestId: undefined, path, question, stream: true, at: 1, text: beginning(3) };
const whole: Gone = { ...stream, stream: false, text: '' };
const call: BackendCall = {
  ...{ id: 1, backend: 'onprem-a', requestId: 'req_1', model: 'small-chat', stream: true, body: { messages } },
  ...{ headers: { contentType: undefined, hasAuthorization: false }, state: 'aborted', chunksSent: 6 },
  ...{ path, ownHeaders: {} },
  ...{ promptTokens: 4, cachedTokens: 0, completionTokens: 6, atOnce: 1, startedAt: 0, endedAt: 1 },
};
const called = [{ run: 1, backend: 'onprem-a', outcome: 'stopped' }];

type Charge = { promptTokens: number; completionTokens: number };
type Case = Charge & { gone: Gone; outcome?: 'cancelled' | 'failed'; attempts?: typeof called };

function wrongIn({ gone, outcome = 'cancelled', attempts = called, ...charge }: Case): Promise<string[]> {
  const chargedTokens = charge.promptTokens + charge.completionTokens;
  const record = usageRecord({
    ...{ requestId: 'req_1', runs: 1, counted: 'estimated', outcome, attempts, ...charge, chargedTokens },
  });
  return wrongLeavingsIn({ asked: [gone], calls: [call], events: [record], records: new Map([['req_1', record]]) });
}

test('a request whose client left before any header is identified by its call', (t) => {
  t.deepEqual(goneIn({ asked: [whole], calls: [call] }), [{ ...whole, requestId: 'req_1' }]);
  t.deepEqual(goneIn({ asked: [{ ...whole, question: 'Another?' }], calls: [call] })[0]?.requestId, undefined);
});

test("a stream is charged between the client's text and the sent text, plus one token in transit", async (t) => {
  for (const tokens of [3, 6, 7]) {
    const completionTokens = await countTokens(beginning(tokens));
    t.deepEqual(await wrongIn({ gone: stream, promptTokens, completionTokens }), [], `${tokens}`);
    t.not((await wrongIn({ gone: stream, promptTokens: promptTokens - 1, completionTokens })).length, 0);
    t.not((await wrongIn({ gone: stream, promptTokens: promptTokens + 99, completionTokens })).length, 0);
    t.deepEqual(
      await wrongIn({ gone: stream, outcome: 'failed', promptTokens: 99, completionTokens: tokens }),
      [],
      'as its ingress counts',
    );
  }
  for (const tokens of [1, 9]) {
    const completionTokens = await countTokens(beginning(tokens));
    t.not((await wrongIn({ gone: stream, promptTokens, completionTokens })).length, 0, `${tokens}`);
  }
  t.not(
    (await wrongIn({ gone: stream, promptTokens, completionTokens: 0 })).length,
    0,
    'delivered text is not charged',
  );
  t.deepEqual(await wrongIn({ gone: { ...stream, text: '' }, promptTokens, completionTokens: 0 }), []);
});

test('a complete response that no client received is charged what was produced, and nothing if no backend was called', async (t) => {
  t.deepEqual(await wrongIn({ gone: whole, promptTokens, completionTokens: 0 }), []);
  t.deepEqual(await wrongIn({ gone: whole, promptTokens: 0, completionTokens: 0, attempts: [] }), []);
  const failed = [{ run: 1, backend: 'onprem-a', outcome: 'failed' }];
  t.deepEqual(await wrongIn({ gone: whole, promptTokens: 0, completionTokens: 0, attempts: failed }), []);
  t.not((await wrongIn({ gone: whole, promptTokens: 0, completionTokens: 0 })).length, 0);
  t.not((await wrongIn({ gone: whole, promptTokens, completionTokens: 0, attempts: [] })).length, 0);
  t.deepEqual(await wrongIn({ gone: whole, promptTokens, completionTokens: await countTokens(beginning(5)) }), []);
  t.not((await wrongIn({ gone: whole, promptTokens, completionTokens: await countTokens(beginning(9)) })).length, 0);
});
