import test from 'ava';
import type { CallBackend } from '../../../workers/backend-client/call-backend.ts';
import { answerStream } from '../../../workers/failover/answer-request.ts';
import { roomFor } from '../../support/answer-room.ts';
import { jobFor } from '../../support/worker-side.ts';

const backend = { url: 'http://127.0.0.1:1/v1', location: 'on-prem' } as const;
const body = JSON.stringify({ input: 'Hi', prompt: 'Hi', messages: [{ role: 'user', content: 'Hi' }] });

/** Asks for a stream, and gets this whole answer. */
async function streamed(endpoint: string, answer: object, choices = 1) {
  const callBackend: CallBackend = {
    whole: () => Promise.reject(new Error('not a stream')),
    async stream(_call, { takeWhole }) {
      takeWhole(JSON.stringify(answer));
      return 'whole';
    },
  };
  const job = jobFor('no stream', { endpoint, payload: body, choices, outputTokensMax: 10 });
  const call = { backend, path: '', headers: {}, apiKey: undefined, requestId: 'r', body: '', room: roomFor() };
  const waits = { signal: AbortSignal.timeout(30_000), onHead() {}, onToken() {}, isBusy: () => false };
  let sent = '';
  const { finalEvents = '' } = await answerStream({
    ...{ job, callBackend, call: { ...call, ...waits }, onCalling() {}, onFirstToken() {} },
    reply: {
      async chunk(ready) {
        sent += ready;
      },
    },
  });
  return { sent, finalEvents };
}

const [chat, text, messages, responses] = ['chat/completions', 'completions', 'messages', 'responses'].map(
  (name) => `/v1/${name}`,
) as [string, string, string, string];
const says = (content: string, finish_reason?: string) => ({ message: { content }, finish_reason });

const unfinished: Record<string, [endpoint: string, answer: object, fault: string, choices?: number]> = {
  'a chat without choices': [chat, { choices: [] }, 'unreadable'],
  'an empty choice of a chat without a reason': [chat, { choices: [says('')] }, 'interrupted'],
  'an empty choice of a completion without a reason': [text, { choices: [{ text: '' }] }, 'interrupted'],
  'two choices, of which one has a reason': [chat, { choices: [says('a', 'stop'), says('b')] }, 'interrupted', 2],
  'a completion without choices': [text, { choices: [] }, 'unreadable'],
  'a message without a stop_reason': [messages, { type: 'message', content: [] }, 'interrupted'],
  'a response in progress': [responses, { status: 'in_progress', output: [] }, 'unreadable'],
};
for (const [title, [endpoint, answer, fault, choices]] of Object.entries(unfinished)) {
  test(`no answer of a whole JSON to a request for a stream: ${title}`, async (t) => {
    t.is(await streamed(endpoint, answer, choices).catch(({ fault }) => fault), fault);
  });
}

for (const [endpoint, choice] of [
  [chat, says('Yes')],
  [text, { text: 'Yes' }],
] as const) {
  test(`a whole answer without a reason ends with \`stop\` in a stream: ${endpoint}`, async (t) => {
    const { sent, finalEvents } = await streamed(endpoint, { choices: [choice] });
    t.true(sent.includes('Yes'));
    t.is(JSON.parse(finalEvents.trim().slice('data: '.length)).choices[0].finish_reason, 'stop');
  });
}

test('a whole answer with a reason ends with that reason only, also an empty one', async (t) => {
  for (const content of ['', 'Yes']) {
    const { sent, finalEvents } = await streamed(chat, { choices: [says(content, 'length')] });
    t.true(sent.includes('"finish_reason":"length"'));
    t.is(finalEvents, '');
  }
});

test('an empty message and an empty response that say that they ended are answers', async (t) => {
  const message = await streamed(messages, { type: 'message', content: [], stop_reason: 'end_turn' });
  t.regex(message.finalEvents, /^event: message_stop$/m);
  for (const status of [undefined, null, 'completed']) {
    const response = await streamed(responses, { status, output: [] });
    t.regex(response.finalEvents, /^event: response\.completed$/m);
  }
});
