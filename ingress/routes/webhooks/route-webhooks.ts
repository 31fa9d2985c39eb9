import type Router from '@koa/router';
import { forbidStoring } from '../../middleware/forbid-storing.ts';
import type { RequestState, Stage } from '../../request-state.ts';
import { listDeliveries, retryDelivery, testWebhook } from './deliveries.ts';
import {
  createWebhook,
  deleteWebhook,
  listWebhooks,
  retrieveWebhook,
  rotateWebhookSecret,
  updateWebhook,
} from './endpoints.ts';
import { requireWebhooks, type WebhookDeps } from './webhook-support.ts';

type Stages = {
  withSignIn: Stage;
  check: Stage;
  useAgain: Stage;
  limitWrites: Stage;
  readSettings: Stage;
  turn: Stage;
};

/** The routes of webhooks: all need a sign-in token. */
export function routeWebhooks(router: Router<RequestState>, deps: WebhookDeps, stages: Stages): void {
  const { withSignIn, check, useAgain, limitWrites, readSettings, turn } = stages;
  const enabled = requireWebhooks(deps);
  const head = [forbidStoring, withSignIn, check, enabled];
  const write = [...head, limitWrites];
  router.post('/v1/webhooks', ...write, useAgain, readSettings, createWebhook(deps));
  router.get('/v1/webhooks', ...head, turn, listWebhooks(deps));
  router.get('/v1/webhooks/wh_:webhook', ...head, turn, retrieveWebhook(deps));
  router.patch('/v1/webhooks/wh_:webhook', ...write, readSettings, updateWebhook(deps));
  router.delete('/v1/webhooks/wh_:webhook', ...write, deleteWebhook(deps));
  router.post('/v1/webhooks/wh_:webhook/rotate-secret', ...write, readSettings, rotateWebhookSecret(deps));
  router.post('/v1/webhooks/wh_:webhook/test', ...write, readSettings, testWebhook(deps));
  router.get('/v1/webhooks/wh_:webhook/deliveries', ...head, turn, listDeliveries(deps));
  router.post('/v1/webhooks/wh_:webhook/deliveries/evt_:event/retry', ...write, readSettings, retryDelivery(deps));
}
