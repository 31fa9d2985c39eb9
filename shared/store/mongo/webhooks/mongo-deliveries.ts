import { readPages } from '../../adapters/read-pages.ts';
import { type Delivery, deliverySchema } from '../../webhooks/webhook.ts';
import type { WebhookStore } from '../../webhooks/webhook-store.ts';
import type { MongoCalls } from '../database/mongo-calls.ts';
import { refusedAsDuplicates } from '../database/mongo-duplicates.ts';
import { createMongoDocuments } from './mongo-webhook-documents.ts';

const deliveriesAtOnce = 500;

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

export function createMongoDeliveries(calls: MongoCalls): Deliveries {
  const { call, durable } = calls;
  const documents = createMongoDocuments(calls, {
    ...{ name: 'webhook_deliveries', schema: deliverySchema },
    idOf: ({ id }) => id,
  });
  const { collection, parse, toDocument, find, change } = documents;
  const isWaiting = (endpoint: string): object => ({ endpoint, nextAt: { $gt: new Date(0) } });

  function remove(filter: object, limit: number): Promise<number> {
    return call(async (signal) => {
      const found = await collection.find(filter, { projection: { _id: 1 }, limit }).toArray();
      if (found.length === 0) return 0;
      signal.throwIfAborted();
      await collection.deleteMany({ _id: { $in: found.map(({ _id }) => _id) } });
      return found.length;
    });
  }

  return {
    findDelivery: find,
    changeDelivery: change,

    async insertDeliveries(deliveries) {
      for (let start = 0; start < deliveries.length; start += deliveriesAtOnce) {
        const piece = deliveries.slice(start, start + deliveriesAtOnce).map(toDocument);
        await call(() => refusedAsDuplicates(collection.insertMany(piece, { ordered: false })));
      }
    },

    async listDeliveries(endpoint, { limit, after, state }) {
      const start = after === undefined ? undefined : await find(after);
      if (after !== undefined && start?.endpoint !== endpoint) return [];
      return readPages<Delivery, Delivery | undefined>({
        limit,
        pageMax: deliveriesAtOnce,
        after: start,
        placeOf: (delivery) => delivery,
        read: (page) =>
          call(async () => {
            const filter: object = { endpoint, ...(state && { state }), ...(page.after && isAfter(page.after)) };
            const options = { sort: { createdAt: -1, _id: -1 }, limit: page.limit, ...durable() } as const;
            return (await collection.find(filter, options).toArray()).map(parse);
          }),
      });
    },

    listWaiting: (endpoint, limit) =>
      call(async () => {
        const options = { sort: { nextAt: 1 }, limit, ...durable() } as const;
        return (await collection.find(isWaiting(endpoint), options).toArray()).map(parse);
      }),

    countWaiting: (endpoint, max) =>
      call(async () => {
        const options = { projection: { _id: 1 }, limit: max } as const;
        return (await collection.find(isWaiting(endpoint), options).toArray()).length;
      }),

    removeDeliveries: (endpoint, limit) => remove({ endpoint }, limit),
    removeDeliveriesBefore: (at, limit) => remove({ createdAt: { $lt: at } }, limit),
  };
}

function isAfter({ createdAt, id }: Delivery): object {
  return { $or: [{ createdAt: { $lt: createdAt } }, { createdAt, _id: { $lt: id } }] };
}
