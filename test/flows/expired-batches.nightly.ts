import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { type Stack, startStack } from '../stack/stack.ts';
import { lineOf, linesOf, openBatchClient, tokensIn } from '../support/batch-client.ts';
import { serviceTotal } from '../support/service-metric.ts';

const windowS = 4;

let stack: Stack;
const parts = new AsyncDisposableStack();

test.before(async () => {
  const models = { 'slow-chat': { tier: 'guest', pool: 'default', backends: ['onprem-a'] } };
  stack = parts.use(await startStack({ models, batch: { window_s: windowS } }));
});

test.after.always(() => parts.disposeAsync());

test('an expired batch keeps its results; running lines are stopped, and lines that were not run get batch_expired', async (t) => {
  const user = await openBatchClient(stack, 'alice');
  const [server] = stack.modelServers;
  server.fail({ hang: true }, 'slow-chat');
  const created = await user.create(linesOf(6) + linesOf(50, { model: 'slow-chat' }, 'slow'));
  t.is((created.expires_at ?? 0) - created.created_at, windowS);
  const batch = await user.ended(created.id, 40_000);
  t.like(batch, { status: 'expired', request_counts: { total: 56, completed: 6, failed: 50 } });
  t.true((batch.finalizing_at ?? 0) >= (batch.expires_at ?? Number.POSITIVE_INFINITY));
  t.true((batch.expired_at ?? 0) >= (batch.finalizing_at ?? Number.POSITIVE_INFINITY));
  const errors = await user.errors(batch);
  t.deepEqual([...new Set(errors.map(({ error, response }) => `${error?.code} ${response}`))], ['batch_expired null']);
  t.is(new Set(errors.map(({ custom_id }) => custom_id)).size, 50);
  const quota = () => user.client.get<{ used: number; reserved: number }>('/../billing/quota');
  let quotaNow = await quota();
  while (quotaNow.reserved > 0) {
    await sleep(20);
    quotaNow = await quota();
  }
  const answered = tokensIn(await user.output(batch));
  t.true(quotaNow.used > answered && quotaNow.used <= answered + 8 * 20, `charged: ${quotaNow.used}`);
  while (server.calls().some(({ state }) => state === 'running')) await sleep(20);
  server.heal();
});

test('a batch with lines for a pool without workers expires, and its line for another pool is run', async (t) => {
  await using own = await startStack({
    workers: 0,
    batch: { window_s: 25 },
    plans: { free: { batch_requests_at_once: 8, model_tiers: ['guest', 'premium'] } },
  });
  await own.startWorker({ POOLS: 'default' });
  const user = await openBatchClient(own, 'bob');
  const { id } = await user.create(`${linesOf(20, { model: 'large-chat' })}${lineOf('small')}\n`);
  const batch = await user.ended(id, 60_000);
  t.like(batch, { status: 'expired', request_counts: { total: 21, completed: 1, failed: 20 } });
  t.deepEqual(
    (await user.output(batch)).map(({ custom_id }) => custom_id),
    ['small'],
  );
  t.is(await serviceTotal(own.workers, 'svc_leases_held'), 0);
});
