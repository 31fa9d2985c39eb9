import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { Agent } from 'undici';
import { openStore } from '../../shared/process/open-store.ts';
import { partitionCount, partitionLockKey } from '../../shared/redis/keys.ts';
import { monthOf } from '../../shared/store/records/account.ts';
import { startStack } from '../stack/stack.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { createMongoHome } from '../support/mongodb/mongo-home.ts';
import { startMongo, urlThrough } from '../support/mongodb/start-mongo.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { scriptDescription } from '../support/script-description.ts';
import { addressIn, startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { type AskedRequest, ask } from '../support/truth/ask.ts';
import { openWitnesses } from '../support/truth/open-witnesses.ts';

const mongo = await startMongo();

type Ways = { toStore: TcpProxy; toRedis: TcpProxy };
type Step = {
  where: string;
  hold: (ways: Ways) => Promise<void>;
  /** Whether the store has the records of the undrained usage when the drainer is held there. */
  records: boolean;
  sums: boolean;
};

/** Commands of the protocol: the verb, and the collection's name with its length. */
const inserts = 'insert\0\u000e\0\0\0usage_records';
const adds = 'update\0\u000b\0\0\0usage_sums';
const marks = scriptDescription('workers/usage/mark-drained.lua');
const trims = scriptDescription('workers/usage/trim-outbox.lua');

const steps: readonly Step[] = [
  { where: 'before the records', hold: ({ toStore }) => toStore.holdBefore(inserts), records: false, sums: false },
  { where: 'after the records', hold: ({ toStore }) => toStore.holdAfter(inserts), records: true, sums: false },
  { where: 'before the sums', hold: ({ toStore }) => toStore.holdBefore(adds), records: true, sums: false },
  { where: 'after the sums', hold: ({ toStore }) => toStore.holdAfter(adds), records: true, sums: true },
  { where: 'before the mark', hold: ({ toRedis }) => toRedis.holdBefore(marks), records: true, sums: true },
  { where: 'before the trim', hold: ({ toRedis }) => toRedis.holdBefore(trims), records: true, sums: true },
  { where: 'after the trim', hold: ({ toRedis }) => toRedis.holdAfter(trims), records: true, sums: true },
];

faultTest(
  test,
  {
    id: '15',
    done: 'the worker that drains usage into the store is killed (SIGKILL) at each step: records, sums, mark, trim',
    promised: 'every request is in the store once, and the sums match the records',
    notRun: 'reason' in mongo ? mongo.reason : undefined,
  },
  async (t, see) => {
    t.timeout(240_000);
    await using parts = new AsyncDisposableStack();
    if ('url' in mongo) parts.use(mongo);
    const home = parts.use(await createMongoHome(mongo));
    const stack = parts.use(await startStack({ databaseUrl: home.url, workers: 0 }));
    const witnesses = parts.use(await openWitnesses(stack, { databaseUrl: home.url }));
    const store = parts.use(await openStore(home.url, recordedLog()));
    const agent = parts.adopt(new Agent(), (opened) => opened.destroy());
    const nowhere = parts.use(await startTcpProxy(home.primary, 'refuse'));
    const asked: AskedRequest[] = [];

    for (const { where, hold, records, sums } of steps) {
      // The worker that answers these cannot bring their usage to the store.
      const answering = await stack.startWorker({ DATABASE_URL: urlThrough(nowhere.port, home.url) });
      const one = await ask(witnesses.wish(`Killed ${where}?`), agent);
      t.is(one.ending, 'answered', where);
      asked.push(one);
      const before = await requestsSummed();
      await dies(answering);

      await using toStore = await startTcpProxy(home.primary);
      await using toRedis = await startTcpProxy(addressIn(stack.redisUrl));
      const reached = hold({ toStore, toRedis });
      const ways = {
        DATABASE_URL: urlThrough(toStore.port, home.url),
        REDIS_URL: `redis://127.0.0.1:${toRedis.port}`,
      };
      const starting = stack.startWorker(ways);
      await reached;
      const draining = await starting;
      await sleep(300); // data forwarded before the hold must arrive
      const record = await store.usage.findUsageRecord(one.requestId ?? '');
      t.is(record !== undefined, records, `${where}: the record`);
      t.is(await requestsSummed(), sums ? asked.length : before, `${where}: the sums`);
      await dies(draining);
    }

    await stack.startWorker();
    const evidence = await witnesses.agreeOn(t, asked);
    t.is(evidence.records.size, steps.length);
    see(`killed at ${steps.length} of ${steps.length} steps; ${evidence.records.size} records, each in its sum once`);

    async function requestsSummed(): Promise<number> {
      return (await store.usage.findUsageSum('user:ann', monthOf(new Date())))?.total.requests ?? 0;
    }

    async function dies(worker: (typeof stack.workers)[number]): Promise<void> {
      worker.process.kill('SIGKILL');
      await worker.process.exited;
      stack.workers.splice(stack.workers.indexOf(worker), 1);
      // Its locks would expire within seconds.
      const holds = Array.from({ length: partitionCount }, (_, partition) => partitionLockKey(partition));
      await Promise.all(holds.map((key) => witnesses.redis.del(key)));
    }
  },
);
