import { accountWebhooksSchema, scheduleSchema } from '../../webhooks/webhook.ts';
import type { WebhookStore } from '../../webhooks/webhook-store.ts';
import type { MongoCalls } from '../database/mongo-calls.ts';
import { createMongoDeliveries } from './mongo-deliveries.ts';
import { createMongoDocuments } from './mongo-webhook-documents.ts';

export function createMongoWebhooks(calls: MongoCalls): WebhookStore {
  const { call, durable } = calls;
  const webhooks = createMongoDocuments(calls, {
    ...{ name: 'webhooks', schema: accountWebhooksSchema },
    idOf: ({ account }) => account,
  });
  const schedules = createMongoDocuments(calls, {
    ...{ name: 'webhook_schedules', schema: scheduleSchema },
    idOf: ({ endpoint }) => endpoint,
  });

  return {
    findWebhooks: webhooks.find,
    changeWebhooks: webhooks.change,

    findWebhooksOf: (accounts) =>
      call(async () => {
        const found = await webhooks.collection.find({ _id: { $in: [...accounts] } }, durable()).toArray();
        return found.map(webhooks.parse);
      }),

    listWebhooks: ({ after, limit }) =>
      call(async () => {
        const options = { sort: { _id: 1 }, limit, ...durable() } as const;
        return (await webhooks.collection.find({ _id: { $gt: after } }, options).toArray()).map(webhooks.parse);
      }),

    ...createMongoDeliveries(calls),

    findSchedule: schedules.find,
    changeSchedule: schedules.change,

    async removeSchedule(endpoint) {
      await call(() => schedules.collection.deleteOne({ _id: endpoint }));
    },

    listDueSchedules: (at, { limit, after }) =>
      call(async () => {
        const isDue: object = { dueAt: { $lte: at }, ...(after?.dueAt && isAfter(after.dueAt, after.endpoint)) };
        const options = { sort: { dueAt: 1, _id: 1 }, limit, ...durable() } as const;
        return (await schedules.collection.find(isDue, options).toArray()).map(schedules.parse);
      }),
  };
}

function isAfter(dueAt: Date, endpoint: string): object {
  return { $or: [{ dueAt: { $gt: dueAt } }, { dueAt, _id: { $gt: endpoint } }] };
}
