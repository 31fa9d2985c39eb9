import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace';

/** Returns the sampler with this name of OpenTelemetry (`OTEL_TRACES_SAMPLER`). `ratio` is that of new traces. */
export function chooseSampler({ sampler, samplerRatio }: { sampler: string; samplerRatio: number }): Sampler {
  const [, parentBased, name] = /^(parentbased_)?(.*)$/.exec(sampler) ?? [];
  const root = rootSampler(name, samplerRatio);
  return parentBased === undefined ? root : new ParentBasedSampler({ root });
}

/** Whether a sampler with this name lets a client decide if its request is traced. */
export function obeysClients(sampler: string): boolean {
  return sampler.startsWith('parentbased_');
}

function rootSampler(name: string | undefined, ratio: number): Sampler {
  if (name === 'always_off') return new AlwaysOffSampler();
  return name === 'traceidratio' ? new TraceIdRatioBasedSampler(ratio) : new AlwaysOnSampler();
}
