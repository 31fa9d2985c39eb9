import test from 'ava';
import { answerFor } from '../stack/model-server.ts';
import { startStack } from '../stack/stack.ts';
import { chat } from '../support/chat.ts';

test('a job whose worker is killed is run by another, and its client gets the answer', async (t) => {
  t.timeout(120_000);
  await using stack = await startStack({ workers: 2 });
  const key = await stack.mintKey('alice');
  stack.modelServers[0].fail({ hang: true, times: 1 });
  const asked = chat({
    url: stack.ingresses[0]?.url ?? '',
    key,
    question: 'Who is there?',
    signal: AbortSignal.timeout(60_000),
  });
  await stack.modelServers[0].waitForCall(() => true);
  const running = await Promise.all(
    stack.workers.map(async ({ operationsUrl }) => (await fetch(`${operationsUrl}/metrics`)).text()),
  );
  const busy = running.findIndex((metrics) => /^svc_jobs_running\{pool="default"\} 1$/m.test(metrics));
  stack.workers[busy]?.process.kill('SIGKILL');
  await stack.workers[busy]?.process.exited;

  const killedAt = performance.now();
  const response = await asked;
  t.true(performance.now() - killedAt < 25_000, 'at most 20 s until it is noticed');
  t.is(response.status, 200);
  const body = (await response.json()) as { choices: { message: { content: string } }[] }; // as the status says
  t.is(body.choices[0]?.message.content, answerFor([{ role: 'user', content: 'Who is there?' }]));
  t.is(stack.modelServers.flatMap((server) => server.calls()).length, 2);
});
