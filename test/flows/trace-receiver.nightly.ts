import test from 'ava';
import { freePort } from '../stack/free-port.ts';
import { startStack } from '../stack/stack.ts';
import { awaitMetric } from '../support/await-metric.ts';
import { chat } from '../support/chat.ts';
import { type OtlpReceiver, startOtlpReceiver } from '../support/otlp/otlp-receiver.ts';

/** Sends requests through a stack with this receiver, and ends its processes. */
async function serve(endpoint: string, during: (stack: Awaited<ReturnType<typeof startStack>>) => Promise<void>) {
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_EXPORTER_OTLP_TIMEOUT: '500' };
  await using stack = await startStack({ env });
  const key = await stack.mintKey('alice');
  const statuses: number[] = [];
  for (let index = 0; index < 20; index++) {
    const answer = await chat({ url: stack.ingresses[0]?.url ?? '', key, question: 'hello', stream: index % 2 === 0 });
    await answer.text();
    statuses.push(answer.status);
  }
  await during(stack);
  await Promise.all(stack.started().map((each) => each.stop()));
  return { statuses, codes: await Promise.all(stack.started().map(({ exited }) => exited)) };
}

const served = { statuses: Array.from({ length: 20 }, () => 200), codes: [0, 0] };

test('a receiver that is away neither fails requests nor delays the end of a process, and its spans are counted', async (t) => {
  const result = await serve(`http://127.0.0.1:${await freePort()}`, async ({ ingresses, workers }) => {
    for (const side of [...ingresses, ...workers])
      await awaitMetric(side, /^svc_trace_spans_total\{result="failed"\} [1-9]/m);
  });
  t.deepEqual(result, served);
});

for (const [what, status] of [
  ['that takes no answer back', undefined],
  ['that refuses every export', 400],
] as const) {
  test(`a receiver ${what} neither fails requests nor delays the end of a process`, async (t) => {
    await using receiver: OtlpReceiver = await startOtlpReceiver(() => status);
    const result = await serve(receiver.url, async ({ ingresses, workers }) => {
      for (const side of [...ingresses, ...workers])
        await awaitMetric(side, /^svc_trace_spans_total\{result="failed"\} [1-9]/m);
    });
    t.deepEqual(result, served);
  });
}

test('spans that wait when a process ends are sent', async (t) => {
  await using receiver = await startOtlpReceiver();
  t.deepEqual(await serve(receiver.url, async () => {}), served);
  t.is(receiver.spans.filter(({ name }) => name === 'settle').length, 20);
});
