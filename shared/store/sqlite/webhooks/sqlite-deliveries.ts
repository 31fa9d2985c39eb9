import type { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { readPages } from '../../adapters/read-pages.ts';
import { type Delivery, deliverySchema } from '../../webhooks/webhook.ts';
import type { DeliveryPage, WebhookStore } from '../../webhooks/webhook-store.ts';
import type { SqliteCalls } from '../database/sqlite-calls.ts';
import { rowsAtOnce } from '../database/sqlite-pages.ts';
import { createSqliteDocuments } from './sqlite-documents.ts';

const countRow = z.object({ count: z.int() });

const insertDelivery = 'INSERT INTO webhook_deliveries (id, document) VALUES (?, ?) ON CONFLICT (id) DO NOTHING';
const selectWaiting = `SELECT document FROM webhook_deliveries
  WHERE endpoint = :endpoint AND next_at IS NOT NULL ORDER BY next_at LIMIT :limit`;
const selectCount = `SELECT count(*) AS count FROM
  (SELECT 1 FROM webhook_deliveries WHERE endpoint = :endpoint AND next_at IS NOT NULL LIMIT :max)`;
const deleteSome = (condition: string) =>
  `DELETE FROM webhook_deliveries WHERE id IN (SELECT id FROM webhook_deliveries WHERE ${condition} LIMIT :limit)`;
const selectPage = (condition: string) => `SELECT document FROM webhook_deliveries
  WHERE endpoint = :endpoint AND ${condition} (created_at, id) < (:createdAt, :id)
  ORDER BY created_at DESC, id DESC LIMIT :limit`;

/** As text, it comes after every time. */
const afterAllTimes = '~';

type Deliveries = Pick<
  WebhookStore,
  | 'insertDeliveries'
  | 'findDelivery'
  | 'listDeliveries'
  | 'listWaiting'
  | 'countWaiting'
  | 'changeDelivery'
  | 'removeDeliveries'
  | 'removeDeliveriesBefore'
>;

export function createSqliteDeliveries(database: DatabaseSync, calls: SqliteCalls): Deliveries {
  const documents = createSqliteDocuments(database, calls, { table: 'webhook_deliveries', schema: deliverySchema });
  const insert = database.prepare(insertDelivery);
  const [waiting, count] = [database.prepare(selectWaiting), database.prepare(selectCount)];
  const ofEndpoint = database.prepare(deleteSome('endpoint = :endpoint'));
  const before = database.prepare(deleteSome('created_at < :at'));

  return {
    findDelivery: documents.find,
    changeDelivery: documents.change,
    listDeliveries: createListDeliveries(database, calls, documents.parse),

    async insertDeliveries(deliveries) {
      for (let start = 0; start < deliveries.length; start += rowsAtOnce) {
        const piece = deliveries.slice(start, start + rowsAtOnce).map((delivery) => deliverySchema.parse(delivery));
        await calls.write(() => {
          for (const delivery of piece) insert.run(delivery.id, JSON.stringify(delivery));
        });
        await nextTurn();
      }
    },

    async listWaiting(endpoint, limit) {
      const rows = await calls.read(() => waiting.all({ endpoint, limit }));
      return rows.map(documents.parse);
    },

    countWaiting: async (endpoint, max) => countRow.parse(await calls.read(() => count.get({ endpoint, max }))).count,

    removeDeliveries: (endpoint, limit) => calls.write(() => Number(ofEndpoint.run({ endpoint, limit }).changes)),

    removeDeliveriesBefore: (at, limit) =>
      calls.write(() => Number(before.run({ at: at.toISOString(), limit }).changes)),
  };
}

function createListDeliveries(
  database: DatabaseSync,
  calls: SqliteCalls,
  parse: (row: unknown) => Delivery,
): WebhookStore['listDeliveries'] {
  const place = database.prepare('SELECT document FROM webhook_deliveries WHERE id = ? AND endpoint = ?');
  const ofAny = database.prepare(selectPage(''));
  const ofState = database.prepare(selectPage('state = :state AND'));

  async function startOf(endpoint: string, after: string | undefined) {
    if (after === undefined) return { createdAt: afterAllTimes, id: '' };
    const found = await calls.read(() => place.get(after, endpoint));
    return found === undefined ? undefined : placeOf(parse(found));
  }

  return async function listDeliveries(endpoint, { limit, after, state }: DeliveryPage) {
    const start = await startOf(endpoint, after);
    if (start === undefined) return [];
    return readPages<Delivery, { createdAt: string; id: string }>({
      limit,
      pageMax: rowsAtOnce,
      after: start,
      placeOf,
      read: async ({ after: { createdAt, id }, limit }) => {
        const page = { endpoint, createdAt, id, limit };
        const rows = await calls.read(() => (state === undefined ? ofAny.all(page) : ofState.all({ ...page, state })));
        return rows.map(parse);
      },
    });
  };
}

function placeOf({ createdAt, id }: Delivery): { createdAt: string; id: string } {
  return { createdAt: createdAt.toISOString(), id };
}
