import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { openScripted } from '../../support/endpoints/open-scripted.ts';
import { chunk, dataOf, type ScriptedAnswer } from '../../support/endpoints/scripted-backend.ts';

const idleMs = 2_000;
/** Sends comments for twice as long as it may be silent, before or after its first token. */
const thinking = (isFirst: boolean): ScriptedAnswer => ({
  async write(response) {
    const begin = dataOf(chunk({ role: 'assistant', content: 'Hi' }));
    if (!isFirst) response.write(begin);
    for (const endsAt = performance.now() + 2 * idleMs; performance.now() < endsAt; await sleep(idleMs / 10))
      response.write(': working\n\n');
    response.end((isFirst ? begin : '') + dataOf(chunk({ content: ' there' }, 'stop')) + dataOf('[DONE]'));
  },
});

const { account, asked } = openScripted(
  test,
  {
    before: () => thinking(true),
    after: () => thinking(false),
    limited: () => ({
      ...{ status: 429, headers: { 'retry-after': '40' } },
      body: { error: { message: 'Slow down', code: 'rate_limit_exceeded' } },
    }),
  },
  {
    models: { before: ['before'], after: ['after'], limited: ['limited'] },
    timeouts: { first_token_ms: idleMs, idle_ms: idleMs, queue_ms: 10_000 },
  },
);

for (const model of ['before', 'after']) {
  test(`a server that sends comments ${model} its first token is not given up, and is asked once`, async (t) => {
    const { openai } = await account();
    const ask = { model, messages: [{ role: 'user' as const, content: 'Hello' }] };
    const [whole, streamed] = await Promise.all([
      openai.chat.completions.create(ask),
      openai.chat.completions.stream(ask).finalChatCompletion(),
    ]);
    for (const { choices } of [whole, streamed]) t.is(choices[0]?.message.content, 'Hi there');
    t.is(asked(model).length, 2);
  });
}

test('the response says when a server that is busy may be asked again', async (t) => {
  const { post } = await account();
  const messages = [{ role: 'user', content: 'Hello' }];
  const answer = await post('/v1/chat/completions', { model: 'limited', messages });
  t.is(answer.status, 503);
  t.like(await answer.json(), { code: 'UPSTREAMS_EXHAUSTED', attempted: ['limited'] });
  const seconds = Number(answer.headers.get('retry-after'));
  t.true(seconds >= 20 && seconds < 40, `after ${seconds} s`);
  t.is(asked('limited').length, 1, 'it was not asked again meanwhile');
});
