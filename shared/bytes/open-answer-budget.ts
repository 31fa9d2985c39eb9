import { Counter, type Registry } from 'prom-client';
import { observeGauge } from '../process/observe-gauge.ts';
import { type AnswerBudget, createAnswerBudget } from './answer-budget.ts';

/** Creates the budget of answers of this process, with its metrics. */
export function openAnswerBudget({ bytesMax, registry }: { bytesMax: number; registry: Registry }): AnswerBudget {
  const ended = new Counter({
    name: 'svc_answers_ended_total',
    help: 'Answers ended because their client read them slowly while this process, or their account, held too many bytes of answers',
    registers: [registry],
  });
  const budget = createAnswerBudget({ bytesMax, onEnded: () => ended.inc() });
  observeGauge(registry, {
    name: 'svc_answer_bytes_held',
    help: 'Bytes of answers that this process holds, of ANSWER_BUDGET_BYTES',
    read: budget.bytesHeld,
  });
  observeGauge(registry, {
    name: 'svc_answer_bytes_max',
    help: 'The value of ANSWER_BUDGET_BYTES',
    read: () => bytesMax,
  });
  observeGauge(registry, {
    name: 'svc_answers_paused',
    help: 'Answers that this process does not read, because it holds too many bytes of answers',
    read: budget.paused,
  });
  return budget;
}
