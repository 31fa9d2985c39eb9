import test from 'ava';
import { Agent } from 'undici';
import { oneBackend } from '../stack/plan.ts';
import { startStack } from '../stack/stack.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { scriptDescription } from '../support/script-description.ts';
import { addressIn, startTcpProxy } from '../support/tcp-proxy.ts';
import { ask } from '../support/truth/ask.ts';
import { openWitnesses } from '../support/truth/open-witnesses.ts';

for (const { text, ...fault } of [
  {
    text: scriptDescription('workers/requests/start-run.lua'),
    id: '10d',
    done: 'Redis starts a run and its reply is lost',
    promised: 'the worker asks again and gets the same reply: one run, one call, one charge; the client is answered',
  },
  {
    // Only settling an answered request sends this.
    text: '"outcome":"completed"',
    id: '10e',
    done: 'Redis settles a request and its reply is lost',
    promised: 'the worker settles again without effect: one call, one charge; the client is answered',
  },
]) {
  faultTest(test, fault, async (t, see) => {
    t.timeout(90_000);
    await using stack = await startStack({ models: oneBackend, workers: 0 });
    await using witnesses = await openWitnesses(stack);
    await using proxy = await startTcpProxy(addressIn(stack.redisUrl));
    const worker = await stack.startWorker({ REDIS_URL: `redis://127.0.0.1:${proxy.port}` });
    const agent = new Agent();
    t.teardown(() => agent.destroy());

    const reached = proxy.holdAfter(text);
    const askedAt = performance.now();
    const asking = ask({ ...witnesses.wish('Did it arrive?'), stream: true, includeUsage: true }, agent);
    await reached;
    void proxy.holdAfter('text that is never sent');
    const asked = await asking;
    t.is(asked.ending, 'answered');
    see(`answered after ${Math.round(performance.now() - askedAt)} ms`);
    const next = await ask(witnesses.wish('And now?'), agent);
    t.is(next.ending, 'answered');

    const { calls, records } = await witnesses.agreeOn(t, [asked, next]);
    t.is(calls.length, 2);
    t.deepEqual(
      [...records.values()].map(({ runs }) => runs),
      [1, 1],
    );
    t.is(worker.process.errors(), '');
    see('2 requests, 2 calls, 2 records with 1 run each');
    await worker.process.stop(); // before the proxy of its connection
  });
}
