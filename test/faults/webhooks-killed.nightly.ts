import test from 'ava';
import { Webhook } from 'standardwebhooks';
import { startStack } from '../stack/stack.ts';
import { linesOf, openBatchClient } from '../support/batch-client.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { createKeyClient } from '../support/key-client.ts';
import { ok, startWebhookReceiver } from '../support/webhook-receiver.ts';

const env = {
  WEBHOOK_SECRET_KEY: 'a key of at least 32 characters for the secrets of webhooks',
  WEBHOOK_HOSTS_PRIVATE: '127.0.0.1:*',
};
const plans = { free: { batch_requests_at_once: 8, model_tiers: ['guest', 'standard'] } };
const [batchCount, kills] = [6, 4];

faultTest(
  test,
  {
    id: '28',
    done: 'workers are killed (SIGKILL) while they send an event: before the answer of the receiver, and after it',
    promised: 'every batch has its event; an event that arrives again has the same id',
  },
  async (t, see) => {
    t.timeout(300_000);
    await using stack = await startStack({ workers: 1, plans, env });
    const keys = createKeyClient(stack);
    let killed = 0;
    await using receiver = await startWebhookReceiver((request, response, raw) => {
      // The only worker is the sender.
      const [sender] = stack.workers;
      if (killed === kills || sender === undefined) return ok(request, response, raw);
      killed += 1;
      if (killed % 2 === 0) ok(request, response, raw);
      sender.process.kill('SIGKILL');
      stack.workers.splice(0, 1);
      void stack.startWorker();
    });
    const bearer = await keys.token('ann');
    const body = { url: `http://127.0.0.1:${receiver.port}/`, events: ['batch.completed'] };
    const { secret } = (await keys.send('POST', '/v1/webhooks', { bearer, body })).body;
    const user = await openBatchClient(stack, 'ann');
    const ids: string[] = [];
    while (ids.length < batchCount) ids.push((await user.create(linesOf(1))).id);
    const eventsById = new Map<string, string>();
    for (let wanted = 1; eventsById.size < batchCount; wanted += 1) {
      await receiver.arrived(wanted);
      const { body: text, headers } = receiver.received[wanted - 1] ?? { body: '', headers: {} };
      const given = headers as Record<string, string>; // each is sent once
      const event = new Webhook(String(secret)).verify(text, given) as { data: { id: string } };
      eventsById.set(String(given['webhook-id']), event.data.id);
    }
    t.deepEqual([...eventsById.values()].sort(), ids.sort());
    t.is(killed, kills);
    see(`${batchCount} of ${batchCount} events after ${kills} kills; ${receiver.received.length} requests`);
  },
);
