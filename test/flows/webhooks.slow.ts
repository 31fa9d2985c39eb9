import test from 'ava';
import { Webhook } from 'standardwebhooks';
import { openStore } from '../../shared/process/open-store.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { linesOf, openBatchClient } from '../support/batch-client.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { answerWith, ok, startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts';

const env = {
  WEBHOOK_SECRET_KEY: 'a key of at least 32 characters for the secrets of webhooks',
  WEBHOOK_HOSTS_PRIVATE: '127.0.0.1:*',
};
const tiers = { model_tiers: ['guest', 'standard'] };
const plans = { free: { batch_requests_at_once: 4, ...tiers }, small: { tokens_per_month: 1, ...tiers } };

let stack: Stack;
let keys: KeyClient;
const parts = new AsyncDisposableStack();

test.before(async () => {
  stack = parts.use(await startStack({ workers: 2, plans, env }));
  keys = createKeyClient(stack);
});

test.after.always(() => parts.disposeAsync());

type Endpoint = { id: string; secret: string };

/** Routes of the account's webhooks, and its endpoint at this receiver. */
async function openEndpoint(account: string, { port }: WebhookReceiver, events: string[]) {
  const bearer = await keys.token(account);
  const send = async (method: string, path: string, body?: object) =>
    (await keys.send(method, `/v1/webhooks${path}`, { bearer, ...(body && { body }) })).body;
  const created = await send('POST', '', { url: `http://127.0.0.1:${port}/`, events });
  return { ...(created as Endpoint), send }; // an answer of the service itself
}

test('the end of a batch is delivered, signed, and listed', async (t) => {
  await using receiver = await startWebhookReceiver();
  const { id, secret, send } = await openEndpoint('batches', receiver, ['batch.completed', 'batch.cancelled']);
  const user = await openBatchClient(stack, 'batches');
  const batch = await user.ended((await user.create(linesOf(2))).id);
  t.is(batch.status, 'completed');
  await receiver.arrived(1);
  const [got] = receiver.received;
  const event = new Webhook(secret).verify(got?.body ?? '', got?.headers as Record<string, string>);
  t.like(event as object, {
    object: 'event',
    type: 'batch.completed',
    data: { id: batch.id },
    created_at: batch.completed_at,
  });
  for (;;) {
    const list = await send('GET', `/${id}/deliveries?state=delivered`);
    const [delivery] = list.data as { id: string; attempts: object[]; payload: object }[];
    if (delivery === undefined) continue; // the receiver's answer is on its way
    t.is(delivery.id, String(got?.headers['webhook-id']));
    t.like(delivery.attempts[0], { status: 204, error: null });
    t.deepEqual(delivery.payload, event);
    break;
  }
});

test('a test is sent within a second, and a delivery can be sent again', async (t) => {
  await using receiver = await startWebhookReceiver();
  const { id, secret, send } = await openEndpoint('tests', receiver, ['key.expiring']);
  const test = await send('POST', `/${id}/test`, {});
  await receiver.arrived(1);
  const rotated = await send('POST', `/${id}/rotate-secret`, {});
  await send('POST', `/${id}/deliveries/${test.id}/retry`, {});
  await receiver.arrived(2);
  const [first, second] = receiver.received;
  t.is(first?.body, second?.body);
  t.is(first?.headers['webhook-id'], second?.headers['webhook-id']);
  for (const each of [secret, String(rotated.secret)]) {
    const verify = () => new Webhook(each).verify(second?.body ?? '', second?.headers as Record<string, string>);
    t.like(verify() as object, { type: 'webhook.test', data: { id } });
  }
});

test('an endpoint that answers 410 is disabled, and works again once it is enabled', async (t) => {
  await using receiver = await startWebhookReceiver(answerWith(410));
  const { id, send } = await openEndpoint('gone', receiver, ['batch.failed']);
  const test = await send('POST', `/${id}/test`, {});
  let shown: Record<string, unknown> = {};
  while (shown.enabled !== false) shown = await send('GET', `/${id}`);
  t.is(shown.disabled_reason, 'gone');
  let failed: unknown[] = [];
  while (failed.length === 0) failed = (await send('GET', `/${id}/deliveries?state=failed`)).data as unknown[];
  receiver.answer(ok);
  t.like(await send('PATCH', `/${id}`, { enabled: true }), { enabled: true, disabled_reason: null });
  await send('POST', `/${id}/deliveries/${test.id}/retry`, {});
  await receiver.arrived(2);
  await send('DELETE', `/${id}`);
  t.deepEqual((await send('GET', '')).data, []);
});

test('each threshold that the usage of a month has reached is sent once', async (t) => {
  await using receiver = await startWebhookReceiver();
  const key = await keys.newKey('quota');
  await keys.change('user:quota', { plan: 'small' });
  const { secret } = await openEndpoint('quota', receiver, ['quota.threshold']);
  t.is((await keys.infer(key)).status, 200);
  await receiver.arrived(3);
  const events = receiver.received.map(({ body, headers }) =>
    new Webhook(secret).verify(body, headers as Record<string, string>),
  ) as { type: string; data: { threshold: number; limit: number } }[]; // as documented
  t.deepEqual(
    events.map(({ data }) => data.threshold).sort((one, other) => one - other),
    [80, 95, 100],
  );
  for (const event of events) t.like(event, { type: 'quota.threshold', data: { limit: 1 } });

  // What has passed is noted in an endpoint that subscribes only now, in each way.
  const late = await openEndpoint('quota', receiver, ['quota.threshold']);
  const added = await openEndpoint('quota', receiver, ['batch.failed']);
  await added.send('PATCH', `/${added.id}`, { events: ['quota.threshold'] });
  await using store = await openStore(`sqlite:${stack.directory}/store.sqlite`, recordedLog());
  const kept = (await store.webhooks.findWebhooks('user:quota'))?.endpoints ?? [];
  for (const { id } of [late, added]) {
    t.deepEqual(Object.values(kept.find((each) => each.id === id)?.quotaTold ?? {}), [100]);
  }
});

test('without a key for secrets, the routes say that webhooks are not enabled', async (t) => {
  await using other = await startStack({ workers: 0 });
  const bearer = await other.identity.token('ann');
  const url = `${other.ingresses[0]?.url}/v1/webhooks`;
  const answer = await fetch(url, { headers: { authorization: `Bearer ${bearer}` } });
  t.is(answer.status, 403);
  t.like(await answer.json(), { code: 'FORBIDDEN', error: 'The operator of this service has not enabled webhooks.' });
});
