import { ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { type ExportResult, ExportResultCode } from '@opentelemetry/core';
import { type ReadableSpan, TracerProvider } from '@opentelemetry/sdk-trace';
import test, { type ExecutionContext } from 'ava';
import { Registry } from 'prom-client';
import { createBoundedExport } from '../../../shared/tracing/bounded-export.ts';
import { recordedLog } from '../../support/recorded-log.ts';

type Times = { now: () => number; closeMs: number };
type Export = { spans: ReadableSpan[]; done: (result: ExportResult) => void };

/** An exporter whose exports end when the test says so. */
function openExport(t: ExecutionContext, { now = () => 0, closeMs = 60_000 }: Partial<Times> = {}) {
  const registry = new Registry();
  const { log, lines } = recordedLog();
  const exports: Export[] = [];
  let isOver = false;
  let next = Promise.withResolvers<Export>();
  const exporter = {
    export(spans: ReadableSpan[], onDone: Export['done']) {
      if (isOver) return onDone(success);
      let isDone = false;
      const done: Export['done'] = (result) => {
        if (!isDone) onDone(result);
        isDone = true;
      };
      exports.push({ spans, done });
      next.resolve({ spans, done });
      next = Promise.withResolvers();
    },
    shutdown: async () => {},
  };
  const processor = createBoundedExport({ exporter, registry, log, now, closeMs });
  // The processor waits up to half a minute for each export.
  t.teardown(() => {
    isOver = true;
    for (const { done } of exports) done(success);
    return processor.shutdown();
  });
  const provider = new TracerProvider({ spanProcessors: [processor] });
  const tracer = provider.getTracer('test');
  return {
    ...{ exports, lines, processor },
    /** The next export that begins. */
    next: () => next.promise,
    end(count: number) {
      for (let index = 0; index < count; index++) tracer.startSpan('span').end();
    },
    endUnsampled() {
      const parent = { traceId: '1'.repeat(32), spanId: '2'.repeat(16), traceFlags: 0 };
      tracer.startSpan('span', {}, trace.setSpanContext(ROOT_CONTEXT, parent)).end();
    },
    async counts() {
      const text = await registry.metrics();
      const of = (result: string) => Number(new RegExp(`result="${result}"\\} (\\d+)`).exec(text)?.[1]);
      return { exported: of('exported'), failed: of('failed'), dropped: of('dropped') };
    },
  };
}

const success = { code: ExportResultCode.SUCCESS };
const failure = { code: ExportResultCode.FAILED, error: new Error('connect ECONNREFUSED') };

test('while an export hangs, at most 4,096 spans wait, and further ones are dropped and counted', async (t) => {
  const side = openExport(t);
  side.end(512);
  t.is(side.exports.length, 1, 'a full batch is sent at once');
  side.end(4_096 + 1_000);
  t.is(side.exports.length, 1, 'one batch at a time');
  t.deepEqual(await side.counts(), { exported: 0, failed: 0, dropped: 1_000 });
  const second = side.next();
  side.exports[0]?.done(success);
  t.is((await second).spans.length, 512);
  t.deepEqual(await side.counts(), { exported: 512, failed: 0, dropped: 1_000 });
  side.end(512);
  t.deepEqual(await side.counts(), { exported: 512, failed: 0, dropped: 1_000 }, 'there is room again');
  side.end(1);
  t.is((await side.counts()).dropped, 1_001);
});

test('failed exports are counted, and logged once a minute', async (t) => {
  let at = 0;
  const side = openExport(t, { now: () => at });
  for (const passed of [0, 59_999, 60_000]) {
    at = passed;
    const next = side.next();
    side.end(512);
    (await next).done(failure);
    await new Promise(setImmediate); // until the processor may send again
  }
  t.deepEqual(await side.counts(), { exported: 0, failed: 3 * 512, dropped: 0 });
  t.is(side.lines.length, 2);
  t.like(side.lines[0], { level: 'warn', fields: { err: failure.error } });
});

test('spans that are not sampled are neither sent nor counted', async (t) => {
  const side = openExport(t);
  side.endUnsampled();
  side.end(511);
  t.is(side.exports.length, 0);
  side.end(1);
  t.is(side.exports[0]?.spans.length, 512);
});

test('at the end, all that waits is sent', async (t) => {
  const side = openExport(t);
  side.end(700);
  const closing = side.processor.shutdown();
  await new Promise(setImmediate);
  for (const { done } of side.exports) done(success);
  await closing;
  t.deepEqual(await side.counts(), { exported: 700, failed: 0, dropped: 0 });
});

test('at the end, batches are sent at once, and one that fails does not give up the others', async (t) => {
  const side = openExport(t);
  side.end(512 + 700);
  const closing = side.processor.shutdown();
  await new Promise(setImmediate);
  const [running, failed, last] = side.exports;
  t.deepEqual(
    [running, failed, last].map((each) => each?.spans.length),
    [512, 512, 188],
  );
  failed?.done(failure);
  await new Promise(setImmediate);
  last?.done(success);
  running?.done(success);
  await closing;
  t.deepEqual(await side.counts(), { exported: 700, failed: 512, dropped: 0 });
});

test('spans that the receiver has not taken at the deadline are counted as failed, once; later ones are dropped', async (t) => {
  const side = openExport(t, { closeMs: 0 });
  side.end(512 + 700);
  await side.processor.shutdown();
  t.deepEqual(await side.counts(), { exported: 0, failed: 1_212, dropped: 0 });
  t.like(side.lines.at(-1), { level: 'warn', fields: { spans: 1_212 } });
  side.exports[0]?.done(success);
  side.end(1);
  await side.processor.shutdown();
  t.deepEqual(await side.counts(), { exported: 0, failed: 1_212, dropped: 1 });
});
