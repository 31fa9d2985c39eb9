import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { Agent } from 'undici';
import { jobName, modelQueue, queueOptions } from '../../shared/jobs/queues.ts';
import { openStore } from '../../shared/process/open-store.ts';
import { outboxKey, outboxMarksKey, partitionOf, replyStreamKey } from '../../shared/redis/keys.ts';
import { monthOf } from '../../shared/store/records/account.ts';
import { startStack } from '../stack/stack.ts';
import { awaitMetric } from '../support/await-metric.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { ask } from '../support/truth/ask.ts';
import { openWitnesses } from '../support/truth/open-witnesses.ts';

const requests = 8;

faultTest(
  test,
  {
    id: '16',
    done: 'every reply, every job and every usage event is delivered twice',
    promised:
      'each takes effect once: each client gets its text once, each backend is called once, each request is counted once',
  },
  async (t, see) => {
    t.timeout(120_000);
    await using stack = await startStack({ workers: 0 });
    await using witnesses = await openWitnesses(stack);
    await using store = await openStore(`sqlite:${stack.directory}/store.sqlite`, recordedLog());
    const { redis } = witnesses;
    const id = modelQueue('small-chat', 'interactive');
    const queue = new Queue(id.name, queueOptions(id, redis));
    const agent = new Agent();
    t.teardown(() => agent.destroy());
    const [stream = ''] = await redis.keys(replyStreamKey('*'));

    const asking = Array.from({ length: requests }, (_, index) => {
      const streamed = index % 2 === 0;
      return ask({ ...witnesses.wish(`Twice ${index}?`), stream: streamed, includeUsage: streamed }, agent);
    });
    while ((await queue.getJobCountByTypes('waiting', 'prioritized')) < requests) await sleep(10);
    const jobs = await queue.getJobs(['waiting', 'prioritized']);
    t.is(jobs.length, requests);
    const repeatJobs = async () => {
      for (const { data, id = '' } of jobs) await queue.add(jobName, data, { jobId: id, priority: 1 });
    };
    await repeatJobs(); // while they wait
    await using repeating = repeatReplies(stack.redisUrl, stream);
    const worker = await stack.startWorker();
    const asked = await Promise.all(asking);
    t.deepEqual(new Set(asked.map(({ ending }) => ending)), new Set(['answered']));
    while ((await queue.getJobCountByTypes('active', 'waiting', 'prioritized')) > 0) await sleep(10);
    await repeatJobs(); // when they are finished and removed
    await awaitMetric(
      worker,
      new RegExp(
        `^svc_jobs_not_started_total\\{pool="default",endpoint="/v1/chat/completions",reason="settled"\\} ${requests}$`,
        'm',
      ),
    );

    const { calls, records } = await witnesses.agreeOn(t, asked);
    t.is(calls.length, requests);
    t.is(records.size, requests);

    // The events again, as behind a Redis that lost the read position.
    const partition = partitionOf('user:ann');
    const outbox = outboxKey(partition);
    const events = await redis.xrange(outbox, '-', '+');
    t.is(events.length, requests);
    for (const [, fields] of events) await redis.xadd(outbox, '*', ...fields);
    const drainedUpTo = () => redis.hget(outboxMarksKey(partition), 'drained');
    const lastOf = async () => (await redis.xrevrange(outbox, '+', '-', 'COUNT', 1))[0]?.[0];
    const month = monthOf(new Date());
    const before = await store.usage.findUsageSum('user:ann', month);
    while ((await drainedUpTo()) !== (await lastOf())) await sleep(50);
    t.deepEqual((await store.usage.findUsageSum('user:ann', month))?.total, before?.total);
    const { kept, recomputed } = await store.usage.recomputeUsage('user:ann', month, '');
    t.deepEqual(kept?.total, recomputed?.total);
    t.is(recomputed?.total.requests, requests);
    see(
      `${requests} requests: ${repeating.repeated()} replies, ${2 * requests} jobs and ${events.length} events repeated`,
    );
    see(`${calls.length} calls, ${records.size} records, no drift`);
    await queue.close();
  },
);

/** Repeats each entry of this stream once, right after it. */
function repeatReplies(redisUrl: string, stream: string) {
  const redis = new Redis(redisUrl);
  const copies = new Set<string>();
  let isOver = false;
  const repeating = (async () => {
    for (let last = '0-0'; !isOver; ) {
      const [[, entries] = ['', []]] = (await redis.xread('BLOCK', 200, 'STREAMS', stream, last)) ?? [];
      for (const [id, fields] of entries) {
        last = id;
        if (!copies.has(id)) copies.add((await redis.xadd(stream, '*', ...fields)) ?? '');
      }
    }
  })();
  return {
    repeated: () => copies.size,
    async [Symbol.asyncDispose]() {
      isOver = true;
      await repeating;
      redis.disconnect();
    },
  };
}
