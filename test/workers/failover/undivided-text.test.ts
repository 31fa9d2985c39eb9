import test from 'ava';
import type { CallBackend } from '../../../workers/backend-client/call-backend.ts';
import { answerStream } from '../../../workers/failover/answer-request.ts';
import { roomFor } from '../../support/answer-room.ts';
import { jobFor } from '../../support/worker-side.ts';

const backend = { url: 'http://127.0.0.1:1/v1', location: 'on-prem' } as const;
const item = { id: 'msg_1', type: 'message', role: 'assistant', content: [] };
const place = { item_id: 'msg_1', output_index: 0, content_index: 0 };

/** Events of a server that sends each text whole, and reports no usage. */
const wholeTexts: Record<string, (text: string) => object[]> = {
  '/v1/responses': (text) => [
    { type: 'response.created', response: { id: 'resp_1' } },
    { type: 'response.output_item.added', output_index: 0, item },
    { type: 'response.output_text.done', ...place, text },
    { type: 'response.output_item.done', output_index: 0, item: { ...item, content: [{ type: 'output_text', text }] } },
    { type: 'response.completed', response: { id: 'resp_1', output: [] } },
  ],
  '/v1/messages': (text) => [
    { type: 'message_start', message: { id: 'msg_1', usage: { input_tokens: 3, output_tokens: 1 } } },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' } },
    { type: 'message_stop' },
  ],
};

const isComplete = /^event: (response\.completed|response\.incomplete|message_stop)$/m;

async function streamed(endpoint: string, text: string) {
  const callBackend: CallBackend = {
    whole: () => Promise.reject(new Error('not a stream')),
    async stream(_call, { take }) {
      for (const event of wholeTexts[endpoint]?.(text) ?? []) if (await take(JSON.stringify(event))) return 'cut';
      return 'ended';
    },
  };
  const body = JSON.stringify({ input: 'Hi', messages: [{ role: 'user', content: 'Hi' }] });
  const job = jobFor('no stream', { endpoint, payload: body, choices: 1, outputTokensMax: 10 });
  const call = { backend, path: '', headers: {}, apiKey: undefined, requestId: 'r', body: '', room: roomFor() };
  const waits = { signal: AbortSignal.timeout(30_000), onHead() {}, onToken() {}, isBusy: () => false };
  let sent = '';
  const { usage, isOverLimit, finalEvents } = await answerStream({
    ...{ job, callBackend, call: { ...call, ...waits }, onCalling() {}, onFirstToken() {} },
    reply: {
      async chunk(ready) {
        sent += ready;
      },
    },
  });
  return { usage, isOverLimit, sent, finalEvents };
}

for (const endpoint of Object.keys(wholeTexts)) {
  test(`text that comes in one piece is charged and limited, if no usage is reported: ${endpoint}`, async (t) => {
    const short = await streamed(endpoint, ' a'.repeat(7));
    t.like(short, { isOverLimit: false, usage: { completionTokens: 7, estimated: true } });
    t.true(short.sent.includes(' a a a a a a a"'));

    const long = await streamed(endpoint, ' a'.repeat(3 * 10 + 256 + 1));
    t.like(long, { isOverLimit: true, usage: { completionTokens: 10, estimated: true } });
    t.false(long.sent.includes(' a a'));
    t.regex(long.finalEvents ?? '', /max_output_tokens|max_tokens/);
    for (const { sent, finalEvents = '' } of [short, long]) {
      t.regex(finalEvents, isComplete);
      t.notRegex(sent, isComplete, 'it is sent with the end');
    }
  });
}
