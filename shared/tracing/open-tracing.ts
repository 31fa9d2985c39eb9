import { randomUUID } from 'node:crypto';
import {
  type Span as ApiSpan,
  type Attributes,
  type Context,
  DiagLogLevel,
  diag,
  type Link,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { parseTraceParent, setGlobalErrorHandler, TraceState } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { Registry } from 'prom-client';
import type { IngressConfig } from '../process/config.ts';
import type { Log } from '../process/log.ts';
import { serviceVersion } from '../process/metrics.ts';
import { createBoundedExport } from './bounded-export.ts';
import type { Span, SpanAttributes, SpanOptions, TraceContext, Tracing } from './span.ts';

type Config = IngressConfig['tracing'] & { url: string };

const kinds = {
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
};
const attributeLengthMax = 256;

/** Tracing with OpenTelemetry's SDK. The exporter and the resource also read the standard variables of OpenTelemetry. */
export function openTracing(deps: {
  config: Config;
  process: 'ingress' | 'worker';
  registry: Registry;
  log: Log;
}): AsyncDisposable & { tracing: Tracing } {
  const { config, process, registry, log } = deps;
  logDiagnostics({ log });
  setGlobalErrorHandler(() => {}); // it gets each failed export, which is counted, and logged less often
  const provider = new TracerProvider({
    sampler: chooseSampler(config),
    resource: resourceOf(process),
    spanLimits: { attributeValueLengthLimit: attributeLengthMax },
    spanProcessors: [createBoundedExport({ exporter: new OTLPTraceExporter({ url: config.url }), registry, log })],
  });
  return {
    tracing: createTracing(provider.getTracer('inference-service', serviceVersion()), config),
    async [Symbol.asyncDispose]() {
      await provider.shutdown();
    },
  };
}

/** `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` replace these. */
function resourceOf(process: string) {
  const own = {
    'service.name': `inference-${process}`,
    'service.version': serviceVersion(),
    'service.instance.id': randomUUID(),
  };
  return defaultResource()
    .merge(resourceFromAttributes(own))
    .merge(detectResources({ detectors: [envDetector] }));
}

function createTracing(tracer: Tracer, { genAi, sampler }: Pick<Config, 'genAi' | 'sampler'>): Tracing {
  return {
    genAi,
    start(name, { parent, client, ...options }) {
      if (client === undefined || obeysClients(sampler))
        return startSpan(tracer, { name, parent: parseParent(parent ?? client), ...options });
      const linked = trace.getSpanContext(parseParent(client));
      const links = linked === undefined ? [] : [{ context: linked }];
      return startSpan(tracer, { name, parent: parseParent(parent), links, ...options });
    },
  };
}

/** What a client sends may be any text: an invalid context is the same as none, and the rest is bounded by the parser. */
function parseParent(parent: TraceContext | undefined): Context {
  const parsed = parent && parseTraceParent(parent.traceparent);
  if (!parsed) return ROOT_CONTEXT;
  const traceState = parent?.tracestate === undefined ? undefined : new TraceState(parent.tracestate);
  return trace.setSpanContext(ROOT_CONTEXT, { ...parsed, isRemote: true, ...(traceState && { traceState }) });
}

type SpanStart = SpanOptions & { name: string; parent: Context; links?: Link[] };

function startSpan(tracer: Tracer, { name, parent, kind, attributes = {}, startedAt, links }: SpanStart): Span {
  const options = {
    kind: kind === undefined ? SpanKind.INTERNAL : kinds[kind],
    attributes: known(attributes),
    ...(startedAt !== undefined && { startTime: startedAt }),
    ...(links !== undefined && { links }),
  };
  return wrap(tracer, tracer.startSpan(name, options, parent));
}

function wrap(tracer: Tracer, span: ApiSpan): Span {
  const { traceId, spanId, traceFlags, traceState } = span.spanContext();
  let isEnded = false;
  function end(error?: string): void {
    if (isEnded) return;
    isEnded = true;
    if (error !== undefined) span.setAttribute('error.type', error).setStatus({ code: SpanStatusCode.ERROR });
    span.end();
  }
  return {
    traceId,
    context() {
      const tracestate = traceState?.serialize();
      const flags = traceFlags.toString(16).padStart(2, '0');
      return { traceparent: `00-${traceId}-${spanId}-${flags}`, ...(tracestate && { tracestate }) };
    },
    start: (name, options) => startSpan(tracer, { name, parent: trace.setSpan(ROOT_CONTEXT, span), ...options }),
    rename: (name) => void span.updateName(name),
    set: (attributes) => void span.setAttributes(known(attributes)),
    event: (name) => void span.addEvent(name),
    end,
    [Symbol.dispose]: () => end(),
  };
}

/** A loop, because this runs for each span: entries and a filter take longer than the rest of a span. */
function known(attributes: SpanAttributes): Attributes {
  const given: Attributes = {};
  for (const name in attributes) {
    const value = attributes[name];
    if (value !== undefined) given[name] = value;
  }
  return given;
}

/** Returns the sampler with this name of OpenTelemetry (`OTEL_TRACES_SAMPLER`). `ratio` is that of new traces. */
export function chooseSampler({ sampler, samplerRatio }: { sampler: string; samplerRatio: number }): Sampler {
  const [, parentBased, name] = /^(parentbased_)?(.*)$/.exec(sampler) ?? [];
  const root = rootSampler(name, samplerRatio);
  return parentBased === undefined ? root : new ParentBasedSampler({ root });
}

/** Whether a sampler with this name lets a client decide if its request is traced. */
function obeysClients(sampler: string): boolean {
  return sampler.startsWith('parentbased_');
}

function rootSampler(name: string | undefined, ratio: number): Sampler {
  if (name === 'always_off') return new AlwaysOffSampler();
  return name === 'traceidratio' ? new TraceIdRatioBasedSampler(ratio) : new AlwaysOnSampler();
}

const periodMs = 60_000;
const textsPerPeriodMax = 10;

/**
 * Logs what OpenTelemetry's packages warn about, such as a variable that they cannot read. Some warn for each span, so each text is logged
 * once a minute. Further arguments are left out: they can hold a span.
 */
export function logDiagnostics(deps: { log: Pick<Log, 'warn'>; now?: () => number }): void {
  const { log, now = () => performance.now() } = deps;
  const texts = new Set<string>();
  let since = now();

  function warn(text: string): void {
    if (now() - since >= periodMs) {
      texts.clear();
      since = now();
    }
    if (texts.has(text) || texts.size >= textsPerPeriodMax) return;
    texts.add(text);
    log.warn({ detail: text }, 'a warning of OpenTelemetry');
  }

  const ignore = () => {};
  const logger = { error: warn, warn, info: ignore, debug: ignore, verbose: ignore };
  diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
}
