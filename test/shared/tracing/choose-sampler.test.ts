import { createHash } from 'node:crypto';
import { ROOT_CONTEXT, SpanKind, trace } from '@opentelemetry/api';
import { SamplingDecision } from '@opentelemetry/sdk-trace';
import test from 'ava';
import { chooseSampler } from '../../../shared/tracing/choose-sampler.ts';

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
