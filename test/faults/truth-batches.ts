import { setTimeout as sleep } from 'node:timers/promises';
import type { TestFn } from 'ava';
import { emptyRoom } from '../../shared/batches/batch-room.ts';
import { openStore } from '../../shared/process/open-store.ts';
import { leaseEndsKey, leasesKey } from '../../shared/redis/keys.ts';
import { monthOf } from '../../shared/store/records/account.ts';
import { startStack } from '../stack/stack.ts';
import { type BatchLine, lineOf, linesOf, openBatchClient, tokensIn } from '../support/batch-client.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { openRedis } from '../support/open-redis.ts';
import { seededRandom } from '../support/random.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { followOutboxes } from '../support/truth/follow-outboxes.ts';
import { killAtRandom } from '../support/truth/kill-at-random.ts';
import { chargedTo, planFileOf } from '../support/truth/open-books.ts';
import { reportsAgree } from '../support/truth/reports-agree.ts';
import type { StoreHome } from '../support/truth/store-homes.ts';

type Registrar = {
  test: TestFn;
  fault: Parameters<typeof faultTest>[1];
  lines: number;
  openHome: (parts: AsyncDisposableStack) => Promise<StoreHome>;
};

const plans = { free: { requests_at_once: 8, batch_requests_at_once: 24, model_tiers: ['guest', 'standard'] } };
const account = 'user:alice';
const everyFewSeconds = { from: 2_000, to: 5_000 };

const refusedEvery = 10;

/** Puts a line that is refused behind each tenth line, and an empty one. */
function withRefused(text: string): string {
  const every = (line: string, index: number) =>
    (index + 1) % refusedEvery === 0 ? `${line}\n${lineOf(`refused-${index}`, { model: 'none' })}\n` : line;
  return text.trimEnd().split('\n').map(every).join('\n');
}

/** Tests that whichever processes die and whichever parts are unavailable, each line ends once, and the charge matches the results. */
export function testTruthOfBatches({ test, fault, lines, openHome }: Registrar): void {
  faultTest(test, fault, async (t, see) => {
    t.timeout(400_000);
    const seed = Number(process.env.TRUTH_SEED ?? Math.floor(Math.random() * 2 ** 31));
    see(`TRUTH_SEED=${seed}`);
    const random = seededRandom(seed);
    await using parts = new AsyncDisposableStack();
    const home = await openHome(parts);
    const stack = parts.use(
      await startStack({
        ...{ ingresses: 2, workers: 3, databaseUrl: home.url, plans },
        modelServers: { firstTokenMs: 80, tokensPerSecond: 400 },
      }),
    );
    const redis = parts.adopt(openRedis(stack.redisUrl), (connection) => connection.disconnect());
    const store = parts.use(await openStore(home.directUrl, recordedLog()));
    const outboxes = parts.use(followOutboxes(stack.redisUrl));
    const key = await stack.mintKey('alice');
    const user = () => openBatchClient(stack, 'alice', key);
    const { id } = await (await user()).create(withRefused(linesOf(lines)));
    const refused = Math.floor(lines / refusedEvery);
    const total = lines + refused;
    const startedAt = performance.now();
    const say = (text: string) => see(`${Math.round((performance.now() - startedAt) / 1_000)} s: ${text}`);
    // The state of the batch is read from the store itself, because ingresses come and go.
    const reached = async (share: number) => {
      while (((await store.batches.findBatch(id))?.counts.completed ?? 0) < lines * share) await sleep(200);
    };

    const { killed } = await (async () => {
      await using killing = killAtRandom(stack, random, everyFewSeconds);
      await reached(0.25);
      say('the store is disconnected');
      await home.cut();
      await sleep(6_000);
      home.restore();
      say('the store is reachable again');
      await reached(0.95);
      return { killed: { ...killing.killed } };
    })();
    say(`killed: ${killed.ingresses} ingresses, ${killed.workers} workers`);
    t.true(killed.workers > 0);
    const client = await user();
    const batch = await client.ended(id, 120_000);
    say(`the batch is ${batch.status}: ${JSON.stringify(batch.request_counts)}`);
    const output = await client.output(batch);
    const errors = await client.errors(batch);
    t.is(batch.status, 'completed');
    t.deepEqual(batch.request_counts, { total, completed: output.length, failed: errors.length });
    const isRefused = ({ custom_id }: BatchLine) => custom_id.startsWith('refused');
    t.deepEqual(
      errors.filter(isRefused).map(({ response, error }) => [response?.status_code, error?.code]),
      Array(refused).fill([400, 'VALIDATION_ERROR']),
    );
    t.deepEqual(
      errors.filter((line) => !isRefused(line) && line.error?.code !== 'INTERNAL_ERROR'),
      [],
      'only a line whose workers were killed repeatedly ends without an answer',
    );
    const names = [...output, ...errors].map(({ custom_id }) => custom_id);
    t.is(names.length, total);
    t.is(new Set(names).size, total);
    for (const { custom_id, response } of output) {
      // The test model server repeats the end of the prompt.
      t.true(response?.body.choices[0]?.message.content?.startsWith('You said') === true, custom_id);
    }

    // Jobs taken from killed workers still have to find that their lines have ended.
    while ((await store.batches.listOpenAccounts()).length > 0) await sleep(200);
    t.deepEqual(await store.batches.findRoom(account), emptyRoom, 'nothing is left of the batch');
    const held = async () =>
      (await redis.hlen(leasesKey(account, 'batch'))) + (await redis.zcard(leaseEndsKey(account, 'batch')));
    while ((await held()) > 0) await sleep(200);
    const month = monthOf(new Date());
    const tokens = tokensIn(output);
    const charged = async () => (await store.usage.findUsageSum(account, month))?.total.chargedTokens ?? 0;
    for (let wait = 0; wait < 100 && (await charged()) < tokens; wait++) await sleep(200);
    t.is(await charged(), tokens, 'the store has charged the tokens of the results');
    const quota = await client.client.get<{ used: number; reserved: number }>('/../billing/quota');
    t.like(quota, { used: tokens, reserved: 0 });
    while (!(await outboxes.areDrained())) await sleep(200);
    const records = await store.usage.listUsageRecords(account, { limit: 10 * lines });
    t.is(chargedTo(records), tokens);
    await reportsAgree(t, { stack, keys: new Map([[account, key]]), records, prices: planFileOf(stack) });
    const produced = stack.modelServers.flatMap((server) => server.calls());
    say(`${produced.length} calls for ${lines} lines, ${tokens} tokens charged`);
  });
}
