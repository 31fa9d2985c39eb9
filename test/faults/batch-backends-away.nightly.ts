import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { startStack } from '../stack/stack.ts';
import { awaitMetric } from '../support/await-metric.ts';
import { linesOf, openBatchClient, tokensIn } from '../support/batch-client.ts';
import { faultTest } from '../support/faults/fault-test.ts';

/** Longer than the initial open period of breakers and the initial pause of lines. */
const awayMs = 60_000;

faultTest(
  test,
  {
    id: 'B4',
    done: 'all backends of a model are unavailable for a minute during a batch',
    promised:
      'lines wait, few calls probe, and the batch continues automatically when they return; failed calls are charged nothing',
  },
  async (t, see) => {
    t.timeout(180_000);
    await using stack = await startStack({ workers: 2, modelServers: { firstTokenMs: 20, tokensPerSecond: 400 } });
    const user = await openBatchClient(stack, 'alice');
    const { id } = await user.create(linesOf(600));
    await user.until(id, ({ request_counts }) => (request_counts?.completed ?? 0) > 50);
    const calls = () => stack.modelServers.flatMap((server) => server.calls()).length;
    for (const server of stack.modelServers) server.fail({ status: 503 });
    const before = calls();
    const [worker] = stack.workers;
    if (worker === undefined) throw new Error('there is no worker');
    // The failures of one account open no breaker.
    await awaitMetric(worker, /^svc_backend_suspects\{backend="cloud",model="small-chat"\} 1$/m);
    await new Promise((resolve) => setTimeout(resolve, awayMs));
    const spent = calls() - before;
    t.true(spent < 300, `${spent} calls in ${awayMs} ms, by two workers with three backends each`);
    t.is((await user.client.batches.retrieve(id)).status, 'in_progress');

    for (const server of stack.modelServers) server.heal();
    const healedAt = Date.now();
    const batch = await user.ended(id, 90_000);
    see(`${spent} calls while they were unavailable; the rest took ${Date.now() - healedAt} ms`);
    t.like(batch, { status: 'completed', request_counts: { total: 600, completed: 600, failed: 0 } });
    const lines = await user.output(batch);
    t.is(new Set(lines.map(({ custom_id }) => custom_id)).size, 600);
    const quota = () => user.client.get<{ used: number; reserved: number }>('/../billing/quota');
    let quotaNow = await quota();
    while (quotaNow.reserved > 0) {
      await sleep(20);
      quotaNow = await quota();
    }
    t.is(quotaNow.used, tokensIn(lines), 'failed calls are charged nothing');
  },
);
