import { createHash } from 'node:crypto';
import { diag, ROOT_CONTEXT, SpanKind, trace } from '@opentelemetry/api';
import { SamplingDecision } from '@opentelemetry/sdk-trace';
import test from 'ava';
import { Registry } from 'prom-client';
import { chooseSampler, logDiagnostics, openTracing } from '../../../shared/tracing/open-tracing.ts';
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

type Parent = 'none' | 'sampled' | 'not sampled';

const traceIds = Array.from({ length: 2_000 }, (_, index) => createHash('md5').update(String(index)).digest('hex'));

/** The share of traces that are sampled. */
function share(sampler: string, parent: Parent, samplerRatio = 1): number {
  const chosen = chooseSampler({ sampler, samplerRatio });
  const sampled = traceIds.filter((traceId) => {
    const flags = { traceId, spanId: '1'.repeat(16), traceFlags: parent === 'sampled' ? 1 : 0, isRemote: true };
    const context = parent === 'none' ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, flags);
    const { decision } = chosen.shouldSample(context, traceId, 'span', SpanKind.SERVER, {}, []);
    return decision === SamplingDecision.RECORD_AND_SAMPLED;
  });
  return sampled.length / traceIds.length;
}

test('each name of a sampler has the meaning that OpenTelemetry gives it', (t) => {
  const parents: Parent[] = ['none', 'sampled', 'not sampled'];
  const shares = (name: string, ratio?: number) => parents.map((parent) => share(name, parent, ratio));
  t.deepEqual(shares('always_on'), [1, 1, 1]);
  t.deepEqual(shares('always_off'), [0, 0, 0]);
  t.deepEqual(shares('parentbased_always_on'), [1, 1, 0]);
  t.deepEqual(shares('parentbased_always_off'), [0, 1, 0]);
  t.deepEqual(shares('traceidratio', 0), [0, 0, 0]);
  const [root = 0, sampled, notSampled] = shares('traceidratio', 0.25);
  t.true(Math.abs(root - 0.25) < 0.1, String(root));
  t.deepEqual([sampled, notSampled], [root, root], 'without regard to the client');
  t.deepEqual(shares('parentbased_traceidratio', 0.25), [root, 1, 0]);
});

test('warnings of OpenTelemetry are logged, each once a minute, and at most ten', (t) => {
  const { log, lines } = recordedLog();
  let at = 0;
  logDiagnostics({ log, now: () => at });
  diag.info('no warning');
  for (const text of ['one', 'one', 'two']) diag.warn(text, { with: 'a span' });
  diag.error('three');
  at = 59_999;
  diag.warn('one');
  t.deepEqual(
    lines.map(({ level, fields }) => [level, fields]),
    ['one', 'two', 'three'].map((detail) => ['warn', { detail }]),
  );
  at = 60_000;
  for (let index = 0; index < 20; index++) diag.warn(`text ${index}`);
  t.is(lines.length, 3 + 10);
});
