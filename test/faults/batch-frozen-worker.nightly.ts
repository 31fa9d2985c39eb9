import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { startStack } from '../stack/stack.ts';
import { awaitMetric } from '../support/await-metric.ts';
import { linesOf, openBatchClient, tokensIn } from '../support/batch-client.ts';
import { type Fault, faultTest } from '../support/faults/fault-test.ts';

const lines = 80;
/** Longer than a job's lock and an account's lock, so that others have taken over all its work when it continues. */
const frozenMs = 24_000;

/** One worker schedules the batch, the other only runs lines. */
const faults: readonly Fault[] = [
  {
    id: 'B5a',
    done: 'the first of two workers is frozen for longer than its locks during a batch',
    promised: 'the other runs its lines; each is charged exactly once',
  },
  {
    id: 'B5b',
    done: 'the second of two workers is frozen for longer than its locks during a batch',
    promised: 'the other runs its lines; each is charged exactly once',
  },
];

for (const [index, fault] of faults.entries()) {
  faultTest(test.serial, fault, async (t, see) => {
    t.timeout(180_000);
    await using stack = await startStack({ workers: 2 });
    for (const server of stack.modelServers) server.fail({ latencyMs: 900 });
    const user = await openBatchClient(stack, 'alice');
    const { id } = await user.create(linesOf(lines));
    const frozen = stack.workers[index];
    if (frozen === undefined) throw new Error('there is no such worker');
    await awaitMetric(frozen, /^svc_jobs_running\{pool="default",lane="batch"\} [1-9]/m);
    // Its calls must be in flight, so that their responses arrive while it cannot receive them.
    await sleep(400);
    frozen.process.kill('SIGSTOP');
    await sleep(frozenMs);
    frozen.process.kill('SIGCONT');

    const batch = await user.ended(id, 90_000);
    t.like(batch, { status: 'completed', request_counts: { total: lines, completed: lines, failed: 0 } });
    const output = await user.output(batch);
    t.is(new Set(output.map(({ custom_id }) => custom_id)).size, lines);
    const quota = () => user.client.get<{ used: number; reserved: number }>('/../billing/quota');
    let quotaNow = await quota();
    for (let waited = 0; waited < 100 && quotaNow.reserved > 0; waited++) {
      await sleep(100);
      quotaNow = await quota();
    }
    t.like(quotaNow, { used: tokensIn(output), reserved: 0 });
    const calls = stack.modelServers.flatMap((server) => server.calls()).length;
    t.true(calls > lines, 'its jobs were run by the other');
    see(`${calls} calls for ${lines} lines`);
  });
}
