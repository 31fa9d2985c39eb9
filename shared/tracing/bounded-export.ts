import { type ExportResult, ExportResultCode } from '@opentelemetry/core';
import { BatchSpanProcessor, type ReadableSpan, type SpanExporter, type SpanProcessor } from '@opentelemetry/sdk-trace';
import { Counter, type Registry } from 'prom-client';
import { within } from '../concurrency/shutdown.ts';
import type { Log } from '../process/log.ts';

/** Spans that wait to be sent. A span takes about a kilobyte. */
const waitingMax = 4_096;
const batchMax = 512;
const sendEveryMs = 2_000;
const logEveryMs = 60_000;
const closeWithinMs = 2_000;

type Deps = {
  exporter: Pick<SpanExporter, 'export' | 'shutdown'>;
  registry: Registry;
  log: Pick<Log, 'warn'>;
  now?: () => number;
  closeMs?: number;
};

/**
 * Sends ended spans in batches, one after another. While the receiver is away or slow, a bounded number of spans waits, and the newest ones
 * are dropped. Nothing waits for it. `shutdown` sends what waits, all batches at once, and gives up what was not taken after two seconds
 * (contract.md#w4-export). It does not throw.
 */
export function createBoundedExport(deps: Deps): SpanProcessor {
  const { exporter, registry, log, now = () => performance.now(), closeMs = closeWithinMs } = deps;
  const spans = new Counter({
    name: 'svc_trace_spans_total',
    help: 'Ended spans, by result: exported, failed (the receiver did not take them, or not in time), or dropped (too many waited)',
    labelNames: ['result'],
    registers: [registry],
  });
  for (const result of ['exported', 'failed', 'dropped']) spans.inc({ result }, 0);
  let waiting = 0;
  let inExport = 0;
  let isClosed = false;
  let isGivenUp = false;
  const allEnded = Promise.withResolvers<void>();
  let loggedAt = Number.NEGATIVE_INFINITY;

  function onResult(count: number, { code, error }: ExportResult): void {
    if (isGivenUp) return;
    inExport -= count;
    if (isClosed && inExport + waiting === 0) allEnded.resolve();
    const isExported = code === ExportResultCode.SUCCESS;
    spans.inc({ result: isExported ? 'exported' : 'failed' }, count);
    if (isExported || now() - loggedAt < logEveryMs) return;
    loggedAt = now();
    log.warn({ err: error }, 'spans could not be exported; see svc_trace_spans_total');
  }

  const counted: SpanExporter = {
    export(batch: ReadableSpan[], done: (result: ExportResult) => void) {
      waiting -= batch.length;
      inExport += batch.length;
      exporter.export(batch, (result) => {
        onResult(batch.length, result);
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
  };
  const batches = new BatchSpanProcessor({
    exporter: counted,
    maxQueueSize: waitingMax,
    maxExportBatchSize: batchMax,
    scheduledDelayMillis: sendEveryMs,
  });

  async function shutdown(): Promise<void> {
    isClosed = true;
    const closing = batches.shutdown().catch(() => {}); // at the first batch that fails, others may be on their way
    const isOver = await within(
      closeMs,
      closing.then(() => (inExport + waiting === 0 ? undefined : allEnded.promise)),
    );
    if (isOver || isGivenUp) return;
    isGivenUp = true;
    spans.inc({ result: 'failed' }, inExport + waiting);
    log.warn({ spans: inExport + waiting }, 'spans were not sent before the process ended');
  }

  return {
    onStart: () => {},
    onEnd(span) {
      if ((span.spanContext().traceFlags & 1) === 0) return;
      if (isClosed || waiting >= waitingMax) {
        spans.inc({ result: 'dropped' });
        return;
      }
      waiting += 1;
      batches.onEnd(span);
    },
    forceFlush: () => batches.forceFlush(),
    shutdown,
  };
}
