import { setTimeout as sleep } from 'node:timers/promises';
import type { TestFn } from 'ava';
import { Agent } from 'undici';
import { leaseGraceMs } from '../../shared/limits/admit.ts';
import { openStore } from '../../shared/process/open-store.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { everyForm } from '../support/client-forms/every-form.ts';
import { everyEndpoint } from '../support/every-endpoint.ts';
import { faultTest, type See } from '../support/faults/fault-test.ts';
import { createKeyClient } from '../support/key-client.ts';
import { openRedis } from '../support/open-redis.ts';
import { seededRandom } from '../support/random.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { type AskedRequest, ask, type Wish } from '../support/truth/ask.ts';
import { contradictionsIn, type Evidence, producedBy } from '../support/truth/contradictions.ts';
import { cutConnectionsAtRandom } from '../support/truth/cut-connections.ts';
import { endLeasesNow } from '../support/truth/end-leases-now.ts';
import { followOutboxes } from '../support/truth/follow-outboxes.ts';
import { killAtRandom } from '../support/truth/kill-at-random.ts';
import { misbehaveAtRandom } from '../support/truth/misbehave-at-random.ts';
import { chargedTo, openBooks, planFileOf } from '../support/truth/open-books.ts';
import { reportsAgree } from '../support/truth/reports-agree.ts';
import { sendRequests } from '../support/truth/send-requests.ts';
import type { StoreHome } from '../support/truth/store-homes.ts';
import { wrongLeavingsIn } from '../support/truth/wrong-leavings.ts';

type Registrar = {
  test: TestFn;
  fault: Parameters<typeof faultTest>[1];
  requests: number;
  openHome: (parts: AsyncDisposableStack) => Promise<StoreHome>;
};

const accounts = ['ann', 'bob', 'cem', 'dee', 'eve', 'fay'];
const clients = 250;
const requestsAtOnce = 100;
/** A response takes from a third of a second to several seconds, and longer while a part is unavailable. */
const leaving = { share: 0.25, withinMs: 2_500 };
const plans = {
  free: {
    requests_at_once: requestsAtOnce,
    requests_per_minute: 100_000,
    tokens_per_minute: 100_000_000,
    tokens_per_month: 1_000_000_000,
    model_tiers: ['guest', 'standard'],
  },
};
const everything = everyEndpoint.everything;
const models = { 'everything-1': everything, 'everything-2': everything };
/** One of the models has none. */
const prices = { 'everything-1': [{ from: '2026-01-01', prompt: 0.15, cached: 0.075, completion: 0.6 }] };
const timeouts = { queue_ms: 5_000, request_ms: 25_000, first_token_ms: 8_000, idle_ms: 3_000 };
/** The maximum lifetime of a lease: until its request's deadline, and a minute. */
const leaseMsMax = timeouts.request_ms + leaseGraceMs.started.interactive;

/** Tests that whichever processes die and whichever parts are unavailable, all counts agree in the end and match the actual usage. */
export function testTruth({ test, fault, requests, openHome }: Registrar): void {
  faultTest(test, fault, async (t, see) => {
    t.timeout(400_000);
    const seed = Number(process.env.TRUTH_SEED ?? Math.floor(Math.random() * 2 ** 31));
    see(`TRUTH_SEED=${seed}`);
    const random = seededRandom(seed);
    await using parts = new AsyncDisposableStack();
    const home = await openHome(parts);
    const stack = parts.use(
      await startStack({
        ...{ ingresses: 2, workers: 3, databaseUrl: home.url, timeouts, plans, models, prices },
        modelServers: { firstTokenMs: 30, tokensPerSecond: 150 },
      }),
    );
    const redis = parts.adopt(openRedis(stack.redisUrl), (connection) => connection.disconnect());
    const store = parts.use(await openStore(home.directUrl, recordedLog()));
    const outboxes = parts.use(followOutboxes(stack.redisUrl));
    const keyClient = createKeyClient(stack);
    const keys = new Map<string, string>();
    for (const account of accounts) keys.set(`user:${account}`, await keyClient.newKey(account));
    const books = openBooks({ stack, redis, store, outboxes, keys });

    const startedAt = performance.now();
    const say = (text: string) => see(`${Math.round((performance.now() - startedAt) / 1_000)} s: ${text}`);
    const { asked, killed, waited } = await underFire();
    say(`clients have finished; ${waited} events had waited for the store`);
    see(`killed: ${killed.ingresses} ingresses, ${killed.workers} workers; Redis disconnected ${killed.cuts} times`);
    t.true(waited > 0, 'the store was unavailable while usage arrived');
    await books.untilNothingRuns();
    say(`no job is left, ${await books.leasesHeld()} leases are`);
    await endLeasesNow(stack.redisUrl, { aheadMs: leaseMsMax, requestMs: timeouts.request_ms });
    t.is(await books.leasesHeld(), 0);
    const filling = await fillSlots(stack, keys.get('user:ann') ?? '');
    asked.push(...filling.tried, ...filling.atOnce);
    t.is(counted(filling.atOnce.map(endingOf)), `${requestsAtOnce} answered`, 'all slots are free again');
    await books.untilAllIsStored();
    say('all requests have ended and are in the store');

    const evidence = await books.evidence(asked);
    t.deepEqual([...contradictionsIn(evidence), ...(await wrongLeavingsIn(evidence))], []);
    await books.agree(t, evidence);
    await reportsAgree(t, { stack, keys, records: [...evidence.records.values()], prices: planFileOf(stack) });
    print(see, evidence);
    say('all agree');

    async function underFire() {
      await using _misbehaving = misbehaveAtRandom(stack.modelServers, random);
      await using cutting = cutConnectionsAtRandom(stack.redisUrl, random);
      await using killing = killAtRandom(stack, random);
      const { ingresses } = stack;
      const leavingOf = () =>
        random() < leaving.share ? AbortSignal.timeout(Math.round(random.between(0, leaving.withinMs))) : undefined;
      const sending = sendRequests({
        ...{ ingresses, keys: [...keys.values()], requests, clients, leavingOf, random },
        ...{ models: Object.keys(models), forms: everyForm },
      });
      await sending.reached(requests * 0.3);
      await home.cut();
      await sending.reached(requests * 0.5);
      let waited = await outboxes.waiting();
      const further: AskedRequest[] = [];
      const agent = new Agent();
      for (; waited === 0; waited = await outboxes.waiting()) {
        // A few requests can end before any usage arrives. Then there are further ones.
        if (sending.asked.length < requests) await sleep(100);
        else further.push(await ask(wishOf(stack, keys.get('user:ann') ?? ''), agent));
      }
      home.restore();
      await Promise.all([sending.done, agent.close()]);
      return { asked: [...sending.asked, ...further], killed: { ...killing.killed, cuts: cutting.cuts() }, waited };
    }
  });
}

/**
 * As many requests of one account at once as its plan allows, `atOnce`. Before them, one after another is `tried` until one is answered:
 * the connections to Redis were cut until now, and an ingress refuses requests until it has them again.
 */
async function fillSlots(stack: Stack, key: string): Promise<Record<'tried' | 'atOnce', AskedRequest[]>> {
  const agent = new Agent();
  const wish = wishOf(stack, key);
  const tried = [await ask(wish, agent)];
  while (tried.at(-1)?.ending === 'refused') tried.push(await ask(wish, agent));
  for (const server of stack.modelServers) server.fail({ latencyMs: 1_500 });
  const atOnce = await Promise.all(Array.from({ length: requestsAtOnce }, () => ask(wish, agent)));
  await agent.close();
  return { tried, atOnce };
}

function wishOf({ ingresses }: Stack, key: string): Wish {
  const url = ingresses[0]?.url ?? '';
  return { url, key, question: 'One more?', stream: false, includeUsage: false, model: 'small-chat' };
}

function print(see: See, { asked, calls, records }: Evidence): void {
  const all = [...records.values()];
  see(`clients: ${counted(asked.map(endingOf))}`);
  see(`records: ${counted(all.map(({ outcome, counted }) => `${outcome} ${counted}`))}`);
  see(`runs of a request: ${counted(all.map(({ runs }) => `with ${runs}`))}`);
  const lost = all.filter(({ outcome }) => outcome === 'lost');
  see(`runs of lost requests: ${counted(lost.map(({ runs }) => `with ${runs}`))}`);
  see(`${calls.length} calls produced ${producedBy(calls)} tokens, ${chargedTo(all)} were charged`);
}

function endingOf(one: AskedRequest): string {
  return 'code' in one ? `${one.ending} ${one.code}` : one.ending;
}

function counted(names: readonly string[]): string {
  const groups = [...Map.groupBy(names, (name) => name)].sort(([one], [other]) => (one < other ? -1 : 1));
  return groups.map(([name, { length }]) => `${length} ${name}`).join(', ');
}
