import type { DatabaseSync } from 'node:sqlite';
import { accountWebhooksSchema, scheduleSchema } from '../../webhooks/webhook.ts';
import type { WebhookStore } from '../../webhooks/webhook-store.ts';
import type { SqliteCalls } from '../database/sqlite-calls.ts';
import { createSqliteDeliveries } from './sqlite-deliveries.ts';
import { createSqliteDocuments } from './sqlite-documents.ts';

const selectOf = 'SELECT document FROM webhooks WHERE id IN (SELECT value FROM json_each(?))';
const selectPage = 'SELECT document FROM webhooks WHERE id > :after ORDER BY id LIMIT :limit';
const selectDue = `SELECT document FROM webhook_schedules
  WHERE due_at <= :at AND (due_at, id) > (:dueAt, :id) ORDER BY due_at, id LIMIT :limit`;
const deleteSchedule = 'DELETE FROM webhook_schedules WHERE id = ?';

export function createSqliteWebhooks(database: DatabaseSync, calls: SqliteCalls): WebhookStore {
  const webhooks = createSqliteDocuments(database, calls, { table: 'webhooks', schema: accountWebhooksSchema });
  const schedules = createSqliteDocuments(database, calls, { table: 'webhook_schedules', schema: scheduleSchema });
  const [ofAccounts, page] = [database.prepare(selectOf), database.prepare(selectPage)];
  const [due, remove] = [database.prepare(selectDue), database.prepare(deleteSchedule)];

  return {
    findWebhooks: webhooks.find,
    changeWebhooks: webhooks.change,

    async findWebhooksOf(accounts) {
      const rows = await calls.read(() => ofAccounts.all(JSON.stringify(accounts)));
      return rows.map(webhooks.parse);
    },

    async listWebhooks({ after, limit }) {
      const rows = await calls.read(() => page.all({ after, limit }));
      return rows.map(webhooks.parse);
    },

    ...createSqliteDeliveries(database, calls),

    findSchedule: schedules.find,
    changeSchedule: schedules.change,

    async removeSchedule(endpoint) {
      await calls.write(() => remove.run(endpoint));
    },

    async listDueSchedules(at, { limit, after }) {
      const start = { dueAt: after?.dueAt?.toISOString() ?? '', id: after?.endpoint ?? '' };
      const rows = await calls.read(() => due.all({ ...start, at: at.toISOString(), limit }));
      return rows.map(schedules.parse);
    },
  };
}
