import test from 'ava';
import { answerFor } from '../stack/model-server.ts';
import { chat, streamedText } from '../support/chat.ts';
import { openSharedStack } from '../support/shared-stack.ts';

const model = 'late-chat';
const shared = openSharedStack(test, {
  isAtBaseUrl: true,
  models: { [model]: { tier: 'guest', pool: 'default', backends: ['onprem-a'] } },
});
const question = 'Are you still there?';

test('a stream whose model takes more than ten seconds begins with a comment and is complete at its end', async (t) => {
  const stack = shared.stack();
  const key = await stack.mintKey('held-back');
  const [server] = stack.modelServers;
  server.fail({ untilHealed: true }, model);
  const sentAt = performance.now();
  const response = await chat({ url: stack.ingresses[0]?.url ?? '', key, question, stream: true, model });
  const waitedMs = performance.now() - sentAt;
  t.is(response.status, 200);
  t.true(waitedMs >= 9_900, `status and headers after ${Math.round(waitedMs)} ms`);
  t.truthy(response.headers.get('x-svc-quota-limit'));
  const call = server.calls().findLast((each) => each.model === model);
  t.is(call?.chunksSent ?? 0, 0, 'before the model has sent anything');
  server.heal(model);
  const text = await response.text();
  t.true(text.startsWith(': waiting\ndata: '));
  t.is(streamedText(text), answerFor([{ role: 'user', content: question }]));
});
