import test, { type ExecutionContext } from 'ava';
import { type Stack, startStack } from '../stack/stack.ts';
import { type BatchClient, linesOf, openBatchClient } from '../support/batch-client.ts';

const bigLines = 2_000;
const smallLines = 20;

let stack: Stack;
const parts = new AsyncDisposableStack();

// Four lines at a time, so that an account that waits for all of the others would wait for long.
test.before(async () => {
  stack = parts.use(
    await startStack({ env: { BATCH_CONCURRENCY: '4' }, modelServers: { firstTokenMs: 20, tokensPerSecond: 1_000 } }),
  );
});

test.after.always(() => parts.disposeAsync());

/** Which of the names each call since then was for, in order. */
function callsOf(names: readonly string[]): string[] {
  const calls = stack.modelServers.flatMap((server) => server.calls());
  const asked = calls.sort((one, other) => one.startedAt - other.startedAt).map(({ body }) => JSON.stringify(body));
  return asked.flatMap((text) => names.find((name) => text.includes(`${name}-`)) ?? []);
}

async function takeTurns(
  t: ExecutionContext,
  { big, small, name }: { big: BatchClient; small: BatchClient; name: string },
) {
  const [bigName, smallName] = [`${name}big`, `${name}small`];
  const first = await big.create(linesOf(bigLines, { model: 'small-chat' }, bigName));
  await big.until(first.id, ({ request_counts }) => (request_counts?.completed ?? 0) > 50);
  const second = await small.create(linesOf(smallLines, { model: 'medium-chat' }, smallName));
  const ended = await small.ended(second.id);
  t.like(ended, { status: 'completed', request_counts: { completed: smallLines } });
  const halfway = await big.client.batches.retrieve(first.id);
  t.is(halfway.status, 'in_progress');
  const calls = callsOf([bigName, smallName]);
  const between = calls.slice(calls.indexOf(smallName), calls.lastIndexOf(smallName) + 1);
  const others = between.length - smallLines;
  t.log(`${others} lines of the large batch ran between the first and the last of the ${smallLines}`);
  t.true(others <= 4 * smallLines, `${others}`);
  await big.client.batches.cancel(first.id);
  await big.ended(first.id);
}

test.serial(
  'accounts take turns: an account with a few lines does not wait for the thousands of another',
  async (t) => {
    const [big, small] = [await openBatchClient(stack, 'big'), await openBatchClient(stack, 'small')];
    await takeTurns(t, { big, small, name: 'two' });
  },
);

test.serial('batches of one account also take turns', async (t) => {
  const user = await openBatchClient(stack, 'both');
  await takeTurns(t, { big: user, small: user, name: 'one' });
});
