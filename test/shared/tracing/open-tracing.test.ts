import test from 'ava';
import { Registry } from 'prom-client';
import { openTracing } from '../../../shared/tracing/open-tracing.ts';
import { startOtlpReceiver } from '../../support/otlp/otlp-receiver.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const [traceId, spanId] = ['0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331'];

type Sampler = Parameters<typeof openTracing>[0]['config']['sampler'];

/** The span of a request whose client sends a trace, and the context that a backend gets. */
async function requestOf(sampler: Sampler, flags: '00' | '01') {
  await using receiver = await startOtlpReceiver();
  const config = { url: `${receiver.url}/v1/traces`, sampler, samplerRatio: 1, genAi: false };
  const opened = openTracing({ config, process: 'ingress', registry: new Registry(), log: recordedLog().log });
  const client = { traceparent: `00-${traceId}-${spanId}-${flags}`, tracestate: 'vendor=a' };
  const span = opened.tracing.start('request', { client });
  const sent = span.context();
  span.end();
  await opened[Symbol.asyncDispose]();
  return { span: receiver.spans[0], sent };
}

test('a sampler that obeys clients continues the trace of a client', async (t) => {
  const { span, sent } = await requestOf('parentbased_always_on', '01');
  t.like(span, { traceId, parentSpanId: spanId, links: [], traceState: 'vendor=a' });
  t.is(sent.tracestate, 'vendor=a');
  t.is((await requestOf('parentbased_always_on', '00')).span, undefined);
});

for (const sampler of ['always_on', 'traceidratio'] as const) {
  test(`with the sampler ${sampler}, a request begins a trace with a link to that of its client`, async (t) => {
    for (const flags of ['00', '01'] as const) {
      const { span, sent } = await requestOf(sampler, flags);
      t.not(span?.traceId, traceId, "none can add spans to another client's trace");
      t.like(span, { parentSpanId: '', traceState: '', links: [{ traceId, spanId }] });
      t.is(sent.traceparent, `00-${span?.traceId}-${span?.spanId}-01`);
      t.is(sent.tracestate, undefined);
    }
  });
}
