import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { answerFor } from '../../stack/model-server.ts';
import { oneBackend } from '../../stack/plan.ts';
import { type Stack, startStack } from '../../stack/stack.ts';
import { chat, streamEvents } from '../../support/chat.ts';
import { createKeyClient } from '../../support/key-client.ts';

test('a job of a killed worker is run by another one, and its client gets the answer', async (t) => {
  t.timeout(120_000);
  await using stack = await startStack({ models: oneBackend, workers: 2 });
  const key = await stack.mintKey('alice');
  stack.modelServers[0].fail({ hang: true, times: 1 });
  const asked = chat({
    url: stack.ingresses[0]?.url ?? '',
    key,
    question: 'Who is there?',
    signal: AbortSignal.timeout(60_000),
  });
  await stack.modelServers[0].waitForCall(() => true);
  await killBusyWorker(stack);

  const response = await asked;
  t.is(response.status, 200);
  const body = (await response.json()) as { choices: { message: { content: string } }[] }; // the body of a response with status 200
  t.is(body.choices[0]?.message.content, answerFor([{ role: 'user', content: 'Who is there?' }]));
  t.is(stack.modelServers.flatMap((server) => server.calls()).length, 2);
});

test('a stream whose worker is killed ends with an error frame, and its text is never restarted', async (t) => {
  t.timeout(120_000);
  await using stack = await startStack({ models: oneBackend, workers: 2 });
  const keys = createKeyClient(stack);
  const key = await keys.newKey('alice');
  const [server] = stack.modelServers;
  server.fail({ endless: true, chunkMs: 10, times: 1 });
  const asked = await chat({
    url: stack.ingresses[0]?.url ?? '',
    key,
    question: 'Who is there?',
    stream: true,
    signal: AbortSignal.timeout(60_000),
  });
  await server.waitForCall(({ chunksSent }) => chunksSent > 10);
  await killBusyWorker(stack);

  const events = streamEvents(await asked.text());
  const last = events.at(-1);
  t.true(last !== '[DONE]' && last?.error?.code === 'UPSTREAM_INTERRUPTED');
  t.is(stack.modelServers.flatMap((each) => each.calls()).length, 1);

  // Its worker cannot report the usage, so its ingress does: the prompt, and an estimate of what the client got.
  const quota = async () => (await keys.send('GET', '/billing/quota', { bearer: key })).body;
  while ((await quota()).reserved !== 0) await sleep(100);
  const received = events.filter((event) => event !== '[DONE]' && event.choices?.[0]?.delta?.content).length;
  const { used } = await quota();
  t.true(Number(used) >= received && Number(used) <= 3 * received + 50, `${used} tokens for ${received} events`);
});

async function killBusyWorker({ workers }: Stack): Promise<void> {
  const metrics = await Promise.all(
    workers.map(async ({ operationsUrl }) => (await fetch(`${operationsUrl}/metrics`)).text()),
  );
  const busy =
    workers[metrics.findIndex((text) => /^svc_jobs_running\{pool="default",lane="interactive"\} 1$/m.test(text))];
  busy?.process.kill('SIGKILL');
  await busy?.process.exited;
}
