import { Counter, Histogram, type Registry } from 'prom-client';
import { durationBuckets } from '../../shared/process/metrics.ts';

export type AnswerMetrics = ReturnType<typeof createAnswerMetrics>;

export function createAnswerMetrics(registry: Registry) {
  const registers = [registry];
  return {
    retryRounds: new Counter({
      name: 'svc_backend_retry_rounds_total',
      help: 'Requests that tried the backends of their model a second time',
      labelNames: ['model', 'endpoint'],
      registers,
    }),
    attempts: new Counter({
      name: 'svc_backend_attempts_total',
      help: 'Calls to backends, by outcome',
      labelNames: ['backend', 'model', 'endpoint', 'outcome'],
      registers,
    }),
    refusals: new Counter({
      name: 'svc_backend_rules_total',
      help: 'Calls to backends without an answer, by the rule that recognised what the backend said',
      labelNames: ['backend', 'rule'],
      registers,
    }),
    attemptDuration: new Histogram({
      name: 'svc_backend_attempt_duration_seconds',
      help: 'Duration of calls to backends',
      labelNames: ['backend', 'model', 'endpoint'],
      buckets: durationBuckets,
      registers,
    }),
    firstToken: new Histogram({
      name: 'svc_backend_first_token_seconds',
      help: 'Time from the call of a backend to the first token of its stream',
      labelNames: ['backend', 'model', 'endpoint'],
      buckets: durationBuckets,
      registers,
    }),
  };
}
