import type { SpanAttributes } from './span.ts';

/** OpenTelemetry's attributes of a span that sends a job to the queue of a model, or processes one. */
export function queueAttributes(operation: 'send' | 'process', model: string): SpanAttributes {
  return {
    'messaging.system': 'bullmq',
    'messaging.operation.name': operation,
    'messaging.operation.type': operation,
    'messaging.destination.name': model,
  };
}
