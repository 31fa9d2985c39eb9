import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { startStack } from '../stack/stack.ts';
import { awaitMetric } from '../support/await-metric.ts';
import { chat } from '../support/chat.ts';

const secret = 'private text of a prompt';

test('operators see waiting jobs only at the operations listener, and may change them only if that is enabled', async (t) => {
  await using stack = await startStack({ workers: 0, timeouts: { queue_ms: 60_000 } });
  const [ingress] = stack.ingresses;
  if (ingress === undefined) throw new Error('the stack has an ingress');
  const key = await stack.mintKey('alice');
  const leaving = new AbortController();
  const waiting = chat({ url: ingress.url, key, question: secret, signal: leaving.signal }).catch(() => undefined);
  await awaitMetric(ingress, /^svc_queue_depth\{pool="default",model="small-chat",lane="interactive"\} 1$/m);

  const list = '/queues/api/queues?activeQueue=small-chat.interactive&status=prioritized';
  const listed = await (await fetch(`${ingress.operationsUrl}${list}`)).text();
  t.regex(listed, /"model":"small-chat"/);
  t.false(listed.includes(secret));
  const page = await fetch(`${ingress.operationsUrl}/queues`);
  t.is(page.status, 200);
  const html = await page.text();
  t.notRegex(html, /(?:src|href)="https?:/, 'it loads nothing from another host');
  t.regex(html, /<link href="static\/css\//);
  for (const path of ['/queues', '/queues/', list, '/queues/static/favicon.ico']) {
    const response = await fetch(ingress.url + path);
    t.is(response.status, 404, path);
    t.like(await response.json(), { code: 'NOT_FOUND' });
  }

  const empty = (url: string) => fetch(`${url}/queues/api/queues/small-chat.interactive/empty`, { method: 'PUT' });
  t.is((await empty(ingress.operationsUrl)).status, 405);
  const writable = await stack.startIngress({ QUEUES_WRITABLE: 'true' });
  t.is((await empty(writable.operationsUrl)).status, 200);
  await awaitMetric(ingress, /^svc_queue_depth\{pool="default",model="small-chat",lane="interactive"\} 0$/m);
  leaving.abort();
  await waiting;

  const workers = async (queue: string) => {
    const response = await fetch(`${ingress.operationsUrl}/queues/api/queues/${queue}/workers`);
    return ((await response.json()) as { workers: unknown[] }).workers.length; // a response of the library
  };
  t.is(await workers('small-chat.interactive'), 0);
  await stack.startWorker({ POOLS: 'default' });
  // The board refreshes once a second. The test's own timeout ends the wait.
  while ((await workers('small-chat.interactive')) === 0) await sleep(20);
  t.is(await workers('small-chat.interactive'), 1, 'a queue with a worker differs from one without');
  t.is(await workers('large-chat.interactive'), 0);

  const counts = async () => {
    const response = await fetch(`${ingress.operationsUrl}/queues/api/queues?activeQueue=small-chat.interactive`);
    const { queues } = (await response.json()) as { queues: { name: string; counts: { completed: number } }[] }; // a response of the library
    return queues.find(({ name }) => name === 'small-chat.interactive')?.counts.completed;
  };
  t.is(await counts(), 0);
  await chat({ url: ingress.url, key, question: 'Hello' });
  while ((await counts()) === 0) await sleep(20); // the job is ended after its answer
  t.is(await counts(), 1, 'finished jobs are counted although they are not kept');
});
