import type { Span, SpanAttributes } from '../../shared/tracing/span.ts';

export type RecordedSpan = { name: string; attributes: SpanAttributes; error?: string | undefined };

/** A span that keeps what its parts were given, once they have ended. */
export function recordedSpan(): { span: Span; ended: RecordedSpan[] } {
  const ended: RecordedSpan[] = [];

  function open(name: string, given: SpanAttributes): Span {
    let attributes = { ...given };
    let isEnded = false;
    const end = (error?: string) => {
      if (!isEnded) ended.push({ name, attributes, ...(error !== undefined && { error }) });
      isEnded = true;
    };
    return {
      traceId: '0af7651916cd43dd8448eb211c80319c',
      context: () => ({ traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' }),
      start: (part, options) => open(part, options?.attributes ?? {}),
      rename() {},
      set(more) {
        attributes = { ...attributes, ...more };
      },
      event() {},
      end,
      [Symbol.dispose]: () => end(),
    };
  }

  return { span: open('request', {}), ended };
}
