import test from 'ava';
import { answerFor } from '../stack/model-server.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { chat, streamEvents } from '../support/chat.ts';

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
  await killBusyWorker(stack);

  const killedAt = performance.now();
  const response = await asked;
  t.true(performance.now() - killedAt < 25_000, 'at most 20 s until it is noticed');
  t.is(response.status, 200);
  const body = (await response.json()) as { choices: { message: { content: string } }[] }; // as the status says
  t.is(body.choices[0]?.message.content, answerFor([{ role: 'user', content: 'Who is there?' }]));
  t.is(stack.modelServers.flatMap((server) => server.calls()).length, 2);
});

test('a stream whose worker is killed ends by an error frame, and its text is never begun anew', async (t) => {
  t.timeout(120_000);
  await using stack = await startStack({ workers: 2 });
  const [server] = stack.modelServers;
  server.fail({ endless: true, chunkMs: 10, times: 1 });
  const asked = await chat({
    url: stack.ingresses[0]?.url ?? '',
    key: await stack.mintKey('alice'),
    question: 'Who is there?',
    stream: true,
    signal: AbortSignal.timeout(60_000),
  });
  await server.waitForCall(({ chunksSent }) => chunksSent > 10);
  await killBusyWorker(stack);

  const events = streamEvents(await asked.text());
  const last = events.at(-1);
  t.true(last !== '[DONE]' && last?.error?.code === 'UPSTREAM_INTERRUPTED');
  const text = events.map((event) => (event === '[DONE]' ? '' : (event.choices?.[0]?.delta?.content ?? ''))).join('');
  t.is(text.split('You said').length, 2, 'it begins once');
});

async function killBusyWorker({ workers }: Stack): Promise<void> {
  const metrics = await Promise.all(
    workers.map(async ({ operationsUrl }) => (await fetch(`${operationsUrl}/metrics`)).text()),
  );
  const busy = workers[metrics.findIndex((text) => /^svc_jobs_running\{pool="default"\} 1$/m.test(text))];
  busy?.process.kill('SIGKILL');
  await busy?.process.exited;
}
