import test from 'ava';
import { answerFor } from '../stack/model-server.ts';
import { startStack } from '../stack/stack.ts';
import { chat, streamedText, wholeText } from '../support/chat.ts';
import { createKeyClient } from '../support/key-client.ts';
import { sized } from '../support/size.ts';

const requests = sized(200);
const atOnce = requests / 5;

test('many requests, a fifth of them at a time over two ingresses and two workers, each get their own answer once', async (t) => {
  await using stack = await startStack({ ingresses: 2, workers: 2 });
  const keys = createKeyClient(stack);
  const key = await keys.newKey('alice');
  await keys.change('user:alice', { plan: 'pro' });
  const answers: { question: string; text: string; status: number }[] = [];
  let next = 0;

  async function client(): Promise<void> {
    for (let index = next++; index < requests; index = next++) {
      const question = `Question ${index}: 東京 ${'é'.repeat(index % 50)}?`;
      const url = stack.ingresses[index % 2]?.url ?? '';
      const response = await chat({ url, key, question, stream: index % 3 === 0 });
      const text = index % 3 === 0 ? streamedText(await response.text()) : await wholeText(response);
      answers.push({ question, text, status: response.status });
    }
  }
  await Promise.all(Array.from({ length: atOnce }, client));

  t.is(answers.length, requests);
  t.is(new Set(answers.map(({ question }) => question)).size, requests);
  const wrong = answers.filter(
    ({ question, text, status }) => status !== 200 || text !== answerFor([{ role: 'user', content: question }]),
  );
  t.deepEqual(wrong, []);

  const calls = stack.modelServers.flatMap((server) => server.calls());
  t.is(calls.length, requests, 'each request called one backend once');
  t.true(calls.every(({ state }) => state === 'completed'));
  const started = await Promise.all(stack.workers.map(({ operationsUrl }) => jobsStarted(operationsUrl)));
  t.is(
    started.reduce((sum, jobs) => sum + jobs, 0),
    requests,
    'each job was started once',
  );
  t.true(
    started.every((jobs) => jobs > 0),
    'both workers took part',
  );
});

async function jobsStarted(operationsUrl: string): Promise<number> {
  const metrics = await (await fetch(`${operationsUrl}/metrics`)).text();
  return Number(/^svc_queue_wait_seconds_count\{.*\} (\d+)$/m.exec(metrics)?.[1] ?? 0);
}
