import test from 'ava';
import { answerFor } from '../stack/model-server.ts';
import { startStack } from '../stack/stack.ts';
import { chat, streamedText } from '../support/chat.ts';

const question = 'Are you still there?';

test('a stream whose model takes more than ten seconds begins with a comment, and is whole in the end', async (t) => {
  await using stack = await startStack();
  const key = await stack.mintKey('alice');
  const [server] = stack.modelServers;
  for (const each of stack.modelServers) each.fail({ latencyMs: 11_000, times: 1 });
  const sentAt = performance.now();
  const response = await chat({ url: stack.ingresses[0]?.url ?? '', key, question, stream: true });
  const waitedMs = performance.now() - sentAt;
  t.is(response.status, 200);
  t.true(waitedMs >= 9_900, `status and headers after ${Math.round(waitedMs)} ms`);
  t.truthy(response.headers.get('x-svc-quota-limit'));
  t.is(server.calls().at(-1)?.chunksSent ?? 0, 0, 'before the model has said a word');
  const text = await response.text();
  t.true(text.startsWith(': waiting\n\ndata: '));
  t.is(streamedText(text), answerFor([{ role: 'user', content: question }]));
});
