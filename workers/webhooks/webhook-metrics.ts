import { Counter, type Registry } from 'prom-client';
import { startAtZero } from '../../shared/process/metrics.ts';
import { observeGauge } from '../../shared/process/observe-gauge.ts';

export type WebhookMetrics = ReturnType<typeof createWebhookMetrics>;

export function createWebhookMetrics(registry: Registry) {
  const registers = [registry];
  return {
    webhookAttempts: startAtZero(
      new Counter({
        name: 'svc_webhook_attempts_total',
        help: 'Attempts to deliver an event to a webhook endpoint, by outcome (delivered, failed)',
        labelNames: ['outcome'],
        registers,
      }),
      [{ outcome: 'delivered' }, { outcome: 'failed' }],
    ),
    webhooksDisabled: startAtZero(
      new Counter({
        name: 'svc_webhook_endpoints_disabled_total',
        help: 'Webhook endpoints that were disabled, by reason (failing, gone)',
        labelNames: ['reason'],
        registers,
      }),
      [{ reason: 'failing' }, { reason: 'gone' }],
    ),
    /** `look` is called at each scrape; undefined while the store does not answer. */
    observeWebhooks(look: () => Promise<number | undefined>): void {
      observeGauge(registry, {
        name: 'svc_webhook_due_age_seconds',
        help: 'How long the webhook endpoint that has been due for longest has waited for a worker; 0 if none is due',
        read: look,
      });
    },
  };
}
