import { createHash } from 'node:crypto';
import type { testEvent, WebhookEvent } from '../store/webhooks/webhook.ts';

/** An event of an account. `at` is when it happened. */
export type AccountEvent = {
  id: string;
  account: string;
  type: WebhookEvent | typeof testEvent;
  at: Date;
  data: Readonly<Record<string, unknown>>;
};

const idLength = 32;

/** Creates an event whose id is a hash of its account, its type and `what` happened: the same one has the same id, in every process. */
export function eventOf({ what, ...event }: Omit<AccountEvent, 'id'> & { what: readonly string[] }): AccountEvent {
  const named = JSON.stringify([event.account, event.type, ...what]);
  const id = `evt_${createHash('sha256').update(named).digest('hex').slice(0, idLength)}`;
  return { ...event, id };
}

/** The payload of its deliveries, as OpenAI has it. */
export function payloadOf({ id, type, at, data }: AccountEvent): string {
  return JSON.stringify({ id, object: 'event', created_at: Math.floor(at.getTime() / 1_000), type, data });
}
