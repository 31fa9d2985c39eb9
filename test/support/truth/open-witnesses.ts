import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import { openStore } from '../../../shared/process/open-store.ts';
import type { Redis } from '../../../shared/redis/connections.ts';
import type { UsageRecord } from '../../../shared/store/usage/usage-record.ts';
import type { Stack } from '../../stack/stack.ts';
import { createKeyClient } from '../key-client.ts';
import { openRedis } from '../open-redis.ts';
import { recordedLog } from '../recorded-log.ts';
import { serviceTotal } from '../service-metric.ts';
import type { AskedRequest, Wish } from './ask.ts';
import { contradictionsIn, type Evidence } from './contradictions.ts';
import { followOutboxes } from './follow-outboxes.ts';
import { openBooks } from './open-books.ts';
import { wrongLeavingsIn } from './wrong-leavings.ts';

/** Includes the contradictions that were found, so that a report shows their number. */
export type AgreedEvidence = Evidence & { contradictions: readonly string[] };

export interface Witnesses extends AsyncDisposable {
  redis: Redis;
  /** One key of each account that sends requests. None has a limit. */
  keys: readonly string[];
  /** A question to the first ingress, for a complete response. */
  wish(question: string): Wish;
  /** Reads the usage events so far. They are trimmed ten seconds after the store has them, and are then lost for `agreeOn`. */
  readEvents(): Promise<void>;
  /** Waits until no job, lease or call is left, and requires that all counts agree. */
  agreeOn(t: ExecutionContext, asked: readonly AskedRequest[]): Promise<AgreedEvidence>;
  /** The evidence about these requests, as soon as nothing runs and nothing waits for the store. Requires nothing else. */
  evidenceOf(asked: readonly AskedRequest[]): Promise<Evidence>;
  /** The usage records of these, as `evidenceOf` finds them. */
  recordsOf(asked: readonly AskedRequest[]): Promise<Evidence['records']>;
}

const usualAccounts = ['ann', 'bob', 'cem'];

/** Observes what becomes of requests of these accounts. `databaseUrl`: the stack's store, if it is not its own. */
export async function openWitnesses(
  stack: Stack,
  options: { databaseUrl?: string; accounts?: readonly string[] } = {},
): Promise<Witnesses> {
  const { databaseUrl = `sqlite:${stack.directory}/store.sqlite`, accounts = usualAccounts } = options;
  await using opened = new AsyncDisposableStack();
  const redis = opened.adopt(openRedis(stack.redisUrl), (connection) => connection.disconnect());
  const store = opened.use(await openStore(databaseUrl, recordedLog()));
  const outboxes = opened.use(followOutboxes(stack.redisUrl));
  const keys = await openAccounts(stack, accounts);
  const books = openBooks({ stack, redis, store, outboxes, keys });
  const parts = opened.move();

  async function evidenceOf(asked: readonly AskedRequest[]): Promise<Evidence> {
    await books.untilNothingRuns();
    await books.untilAllIsStored();
    return books.evidence(asked);
  }

  return {
    redis,
    keys: [...keys.values()],
    wish(question) {
      const [url, key] = [stack.ingresses[0]?.url ?? '', keys.values().next().value ?? ''];
      return { url, key, question, stream: false, includeUsage: false, model: 'small-chat' };
    },
    readEvents: outboxes.readAll,
    async agreeOn(t, asked) {
      await books.untilNothingRuns();
      await books.untilAllHasEnded();
      while ((await serviceTotal(stack.workers, 'svc_leases_held')) > 0) await sleep(50);
      await books.untilAllIsStored();
      const evidence = await books.evidence(asked);
      const contradictions = [...contradictionsIn(evidence), ...(await wrongLeavingsIn(evidence))];
      t.deepEqual(contradictions, []);
      t.deepEqual(chargedUncalled(evidence), [], 'a request that called no backend is charged nothing');
      t.false(evidence.calls.some(({ state }) => state === 'running'));
      await books.agree(t, evidence);
      return { ...evidence, contradictions };
    },
    evidenceOf,
    recordsOf: async (asked) => (await evidenceOf(asked)).records,
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  };
}

async function openAccounts(stack: Stack, accounts: readonly string[]): Promise<Map<string, string>> {
  const client = createKeyClient(stack);
  const keys = new Map<string, string>();
  for (const account of accounts) {
    keys.set(`user:${account}`, await client.newKey(account));
    await client.change(`user:${account}`, { plan: 'pro' });
  }
  return keys;
}

/** A call that was ended before its response is an attempt, too: its prompt is charged. */
function chargedUncalled({ calls, records }: Evidence): UsageRecord[] {
  const called = new Set(calls.map(({ requestId }) => requestId));
  const uncalled = [...records.values()].filter(({ requestId }) => !called.has(requestId));
  return uncalled.filter(
    ({ attempts, promptTokens, chargedTokens }) => chargedTokens > (attempts.length === 0 ? 0 : promptTokens),
  );
}
