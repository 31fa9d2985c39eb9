import test from 'ava';
import { Redis } from 'ioredis';
import { changesKey, versionKey } from '../../shared/redis/keys.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { chat } from '../support/chat.ts';
import { createKeyClient, type KeyClient, masked } from '../support/key-client.ts';
import { sized } from '../support/size.ts';
import { type RedisWatch, watchRedis } from '../support/watch-redis.ts';

let stack: Stack;
let onA: KeyClient;
let onB: KeyClient;
let watch: RedisWatch;
const parts = new AsyncDisposableStack();

test.before(async () => {
  stack = parts.use(await startStack({ ingresses: 2 }));
  watch = parts.use(await watchRedis(stack.redisUrl));
  onA = createKeyClient(stack, { url: () => stack.ingresses[0]?.url ?? '' });
  onB = createKeyClient(stack, { url: () => stack.ingresses[1]?.url ?? '' });
});

test.after.always(() => parts.disposeAsync());

/** Heartbeats, shares, replies, queues, the scheduler of batches, renewals of leases, and what workers do for usage, all of which goes on meanwhile. */
const others =
  /^svc:(reply-frames:|control:|(audit|device|file)-keeper$|devices-looked-at$|batch-scheduler$|queue-depths|\{shares\}:|\{(small|medium|large)-chat\}:|\{(default|large)-|\{p\d\d\}:(outbox|outbox-marks|keeper|lease-holders)$|\{p\d\d\}:lease-ends:)/;
/** Admission and settling have the outbox among their keys, and belong to a request all the same. */
const ofRequest = /^svc:\{p\d\d\}:(version|ended):/;

/** What was asked of Redis for the sake of a request: everything but what others do meanwhile. */
function askedFor(commands: string[][]): string[] {
  return commands
    .filter(
      (command) =>
        command.some((argument) => ofRequest.test(argument)) || !command.some((argument) => others.test(argument)),
    )
    .filter((command) => !['time', 'multi', 'exec'].includes(command[0]?.toLowerCase() ?? '') && !isWatch(command))
    .map(([name = '']) => name.toLowerCase().replace(/^eval$/, 'evalsha')); // a connection sends each script's text once
}

/** Once a second while something runs, so that it ends when its account is suspended. */
function isWatch([name = '', key = '']: string[]): boolean {
  return /^m?get$/i.test(name) && key.includes(':version:');
}

async function statuses(client: KeyClient, key: string): Promise<number[]> {
  return Promise.all([client.models(key), client.infer(key)].map(async (answer) => (await answer).status));
}

test.serial(
  'time after time: a key that was rotated at one ingress is dead at the other at once, and the new one works',
  async (t) => {
    let key = await onA.newKey('alice');
    t.deepEqual(await statuses(onB, key), [200, 200]);
    for (let round = 0; round < sized(40); round++) {
      const known = await watch.during(() => onB.models(key));
      t.deepEqual(askedFor(known), ['evalsha'], `round ${round}: one call for a caller that is known`);
      const admitted = askedFor(await watch.during(() => onB.infer(key)));
      t.deepEqual(admitted, ['evalsha', 'evalsha', 'evalsha'], `round ${round}: one, and two by the worker`);
      const { status, body } = await onA.rotate('alice', key);
      t.is(status, 200);
      t.deepEqual(await statuses(onB, key), [401, 401], `round ${round}: the old key`);
      key = String(body.key);
      t.deepEqual(await statuses(onB, key), [200, 200], `round ${round}: the new key`);
    }
  },
);

test.serial(
  'a caller costs four calls at first sight at most, and one from then on, whichever route it is',
  async (t) => {
    const key = await onA.newKey('bob');
    const first = askedFor(await watch.during(() => onB.models(key)));
    // A caller and its age are asked for together: `get` and `pttl` are one call.
    t.is(first.filter((name) => name === 'pttl').length, 1);
    t.true(first.filter((name) => name !== 'pttl').length <= 4, String(first));
    await onB.infer(key); // from here on the month of the account is counted
    const bearer = await onB.token('bob');
    await onB.list('bob');
    const looked = [
      () => onB.models(key),
      () => onB.infer(key, 'large-chat'),
      () => onB.send('POST', '/v1/chat/completions', { bearer: key, body: '{}' }),
      () => onB.send('GET', '/billing/quota', { bearer: key }),
      () => onB.send('GET', '/billing/usage', { bearer: key }),
      () => onB.send('GET', '/billing/plan', { bearer }),
      () => onB.send('GET', '/v1/models', { bearer }),
      () => onB.list('bob'),
      () => onB.mint('bob'),
      () => onB.rotate('bob', 'no key'),
    ];
    for (const call of looked) t.deepEqual(askedFor(await watch.during(call)), ['evalsha'], String(call));
    // Its worker starts it, and settles it.
    t.deepEqual(askedFor(await watch.during(() => onB.infer(key))), ['evalsha', 'evalsha', 'evalsha']);
  },
);

test.serial('a key with a typing error, and what is no key, cost no call at all', async (t) => {
  const key = await onA.newKey('frank');
  const typo = key.slice(0, 12) + (key[12] === 'a' ? 'b' : 'a') + key.slice(13);
  for (const wrong of [typo, 'svc_', 'svc_garbage', masked(key).replaceAll('*', '0'), `${key}0`]) {
    for (const call of [() => onB.models(wrong), () => onB.infer(wrong)]) {
      t.deepEqual(askedFor(await watch.during(async () => t.is((await call()).status, 401))), [], wrong);
    }
  }
});

test.serial('a revoked key is refused on every route, whatever else is wrong with its request', async (t) => {
  const key = await onA.newKey('carol');
  t.deepEqual(await statuses(onB, key), [200, 200]);
  t.is((await onA.revoke('carol', masked(key))).status, 200);
  const requests = [
    onB.models(key),
    onB.send('GET', '/v1/models/small-chat', { bearer: key }),
    onB.send('GET', '/v1/models/nothing', { bearer: key }),
    onB.send('GET', '/billing/quota', { bearer: key }),
    onB.send('GET', '/billing/usage?month=x', { bearer: key }),
    onB.send('GET', '/billing/plan', { bearer: key }),
    onB.send('POST', '/v1/chat/completions', { bearer: key, body: '{"messages":' }),
    onB.send('POST', '/v1/chat/completions', { bearer: key, body: {} }),
    onB.send('POST', '/v1/chat/completions', { bearer: key, body: 'x', headers: { 'content-type': 'text/plain' } }),
    onB.send('POST', '/v1/chat/completions', { bearer: key, body: { model: 'nothing', messages: [] } }),
  ];
  for (const request of requests) t.like(await request, { status: 401, body: { code: 'INVALID_KEY' } });
});

test.serial('of a burst with a key that is new to an ingress all are answered', async (t) => {
  const key = await onA.newKey('dave');
  const answers = await Promise.all(Array.from({ length: 60 }, () => onB.models(key)));
  t.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]));
});

test.serial('what Redis has forgotten is read again, and a mark that nobody takes away keeps nobody out', async (t) => {
  const redis = new Redis(stack.redisUrl);
  t.teardown(() => redis.disconnect());
  const key = await onA.newKey('erin');
  t.deepEqual(await statuses(onB, key), [200, 200]);
  await redis.del(versionKey('user:erin'));
  t.deepEqual(await statuses(onB, key), [200, 200]);
  t.is(await redis.get(versionKey('user:erin')), '1');

  await redis.del(versionKey('user:erin'));
  await redis.zadd(changesKey('user:erin'), Date.now() + 30_000, 'somebody who died');
  t.deepEqual(await statuses(onB, key), [200, 200]);
  t.is(await redis.get(versionKey('user:erin')), null);
  const { body } = await onA.rotate('erin', key);
  t.deepEqual(await statuses(onB, key), [401, 401]);
  t.deepEqual(await statuses(onB, String(body.key)), [200, 200]);
});

test.serial('suspending an account ends what runs for it: with 403, or in a stream with an error frame', async (t) => {
  const key = await onA.newKey('edith');
  const other = await onA.newKey('otto');
  for (const server of stack.modelServers) server.fail({ endless: true, chunkMs: 20 });
  const urlOfB = stack.ingresses[1]?.url ?? '';
  const streams = await Promise.all(
    [key, other].map((bearer) => chat({ url: urlOfB, key: bearer, question: 'Go on', stream: true })),
  );
  const whole = chat({ url: urlOfB, key, question: 'Go on' });
  const [mine, others] = streams.map((response) => response.body?.getReader());
  await mine?.read();
  await others?.read();
  await stack.modelServers[0]?.waitForCall(({ state }) => state === 'running');
  t.is((await onA.change('user:edith', { suspended: true })).status, 200);

  const refused = await whole;
  t.is(refused.status, 403);
  t.like(await refused.json(), { code: 'FORBIDDEN', error: 'This account is suspended.' });
  let text = '';
  for (let piece = await mine?.read(); piece?.done === false; piece = await mine?.read()) {
    text += Buffer.from(piece.value).toString();
  }
  const [last = ''] = text.trimEnd().split('\n\n').slice(-1);
  t.like(JSON.parse(last.replace(/^data: /, '')), { error: { code: 'FORBIDDEN', param: null } });
  t.false(text.includes('[DONE]'));
  t.false((await others?.read())?.done, 'the stream of another account goes on');

  await others?.cancel();
  for (const server of stack.modelServers) server.heal();
  t.is((await onA.change('user:edith', { suspended: false })).status, 200);
  const quota = async () => (await onA.send('GET', '/billing/quota', { bearer: key })).body;
  while (Number((await quota()).reserved) > 0) await new Promise((resolve) => setTimeout(resolve, 20));
  t.true(Number((await quota()).used) > 0, 'what was delivered is charged');
  t.is((await onB.infer(key)).status, 200);
});
