import test from 'ava';
import { changesKey, versionKey } from '../../shared/redis/keys.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { chat } from '../support/chat.ts';
import { createKeyClient, type KeyClient, masked } from '../support/key-client.ts';
import { openRedis } from '../support/open-redis.ts';
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

/**
 * Commands of heartbeats, of the fleet, webhooks, shares, paused backends, replies, queues, the batch scheduler, lease renewals, the
 * budgets of kept answers and the usage outbox, which continue meanwhile.
 */
const others =
  /^svc:(fleet$|batch-events-lock$|webhook-(upkeep-lock$|lock:)|reply-frames:|control:|(audit|device|file)-lock$|devices-looked-at$|batch-scheduler-lock$|queue-depths|backend-paused:|requests-to-end$|\{shares[:}]|\{(small|medium|large)-chat\}:|\{(default|large)-|\{p\d\d\}:(outbox|outbox-marks|lock|lease-holders|peaks:.+|kept-(bytes|room):(user|device))$|\{p\d\d\}:lease-ends:)/;
/** Admission and settling use outbox keys, but belong to a request. */
const ofRequest = /^svc:\{p\d\d\}:(version|ended):/;

/** In a cluster, a connection to a node is made when it is first needed. */
const ofConnections = ['time', 'ping', 'multi', 'exec', 'hello', 'info', 'client', 'cluster'];

/** The Redis commands that requests caused: all except those in `others`. */
function askedFor(commands: string[][]): string[] {
  return commands
    .filter(
      (command) =>
        command.some((argument) => ofRequest.test(argument)) || !command.some((argument) => others.test(argument)),
    )
    .filter((command) => !ofConnections.includes(command[0]?.toLowerCase() ?? ''))
    .filter((command) => !isWatch(command) && !isSharing(command))
    .map(([name = '']) => name.toLowerCase().replace(/^eval$/, 'evalsha')); // a connection sends the text of each script once
}

/** A check once a second while a request runs, so that it ends when its account is suspended. */
function isWatch([name = '', key = '']: string[]): boolean {
  return /^m?get$/i.test(name) && key.includes(':version:');
}

/** A caller that was read from the store is written for the other ingresses. Its request does not wait for that, and may end earlier. */
function isSharing([name = '', key = '']: string[]): boolean {
  return /^set$/i.test(name) && key.startsWith('svc:caller:');
}

async function statuses(client: KeyClient, key: string): Promise<number[]> {
  return Promise.all([client.models(key), client.infer(key)].map(async (answer) => (await answer).status));
}

test.serial(
  'repeatedly: a key rotated at one ingress is rejected immediately at the other, and the new one works',
  async (t) => {
    let key = await onA.newKey('alice');
    t.deepEqual(await statuses(onB, key), [200, 200]);
    for (let round = 0; round < sized(40); round++) {
      const known = await watch.during(() => onB.models(key));
      t.deepEqual(askedFor(known), ['evalsha'], `round ${round}: one call for a known caller`);
      const admitted = askedFor(await watch.during(() => onB.infer(key)));
      t.deepEqual(admitted, ['evalsha', 'evalsha', 'evalsha'], `round ${round}: one call, and two by the worker`);
      const { status, body } = await onA.rotate('alice', key);
      t.is(status, 200);
      t.deepEqual(await statuses(onB, key), [401, 401], `round ${round}: the old key`);
      key = String(body.key);
      t.deepEqual(await statuses(onB, key), [200, 200], `round ${round}: the new key`);
    }
  },
);

test.serial(
  'a caller costs at most four Redis calls when first seen, and one from then on, on every route that writes no settings',
  async (t) => {
    const key = await onA.newKey('bob');
    const first = askedFor(await watch.during(() => onB.models(key)));
    // A caller and its age are read together: `get` and `pttl` are one call.
    t.is(first.filter((name) => name === 'pttl').length, 1);
    t.true(first.filter((name) => name !== 'pttl').length <= 3, String(first)); // and the one that shares it
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
    ];
    for (const call of looked) t.deepEqual(askedFor(await watch.during(call)), ['evalsha'], String(call));
    // A write of its settings is counted, too.
    for (const write of [() => onB.mint('bob'), () => onB.rotate('bob', 'no key')]) {
      t.deepEqual(askedFor(await watch.during(write)), ['evalsha', 'evalsha'], String(write));
    }
    // Its worker starts it and settles it.
    t.deepEqual(askedFor(await watch.during(() => onB.infer(key))), ['evalsha', 'evalsha', 'evalsha']);
  },
);

test.serial('a key with a typo, or a malformed key, costs no Redis call', async (t) => {
  const key = await onA.newKey('frank');
  const typo = key.slice(0, 12) + (key[12] === 'a' ? 'b' : 'a') + key.slice(13);
  for (const wrong of [typo, 'svc_', 'svc_garbage', masked(key).replaceAll('*', '0'), `${key}0`]) {
    for (const call of [() => onB.models(wrong), () => onB.infer(wrong)]) {
      t.deepEqual(askedFor(await watch.during(async () => t.is((await call()).status, 401))), [], wrong);
    }
  }
});

test.serial('a revoked key is rejected on every route, even if its request has other errors', async (t) => {
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

test.serial('all requests of a burst with a key that is new to an ingress are answered', async (t) => {
  const key = await onA.newKey('dave');
  const answers = await Promise.all(Array.from({ length: 60 }, () => onB.models(key)));
  t.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]));
});

test.serial('data that Redis lost is read again, and a stale change mark blocks no caller', async (t) => {
  const redis = openRedis(stack.redisUrl);
  t.teardown(() => redis.disconnect());
  const key = await onA.newKey('erin');
  t.deepEqual(await statuses(onB, key), [200, 200]);
  await redis.del(versionKey('user:erin'));
  t.deepEqual(await statuses(onB, key), [200, 200]);
  t.is(await redis.get(versionKey('user:erin')), '1');

  await redis.del(versionKey('user:erin'));
  await redis.zadd(changesKey('user:erin'), Date.now() + 30_000, 'crashed process');
  t.deepEqual(await statuses(onB, key), [200, 200]);
  t.is(await redis.get(versionKey('user:erin')), null);
  const { body } = await onA.rotate('erin', key);
  t.deepEqual(await statuses(onB, key), [401, 401]);
  t.deepEqual(await statuses(onB, String(body.key)), [200, 200]);
});

test.serial(
  'suspending an account ends its running requests: with 403, or in a stream with an error frame',
  async (t) => {
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
    t.false((await others?.read())?.done, 'the stream of another account continues');

    await others?.cancel();
    for (const server of stack.modelServers) server.heal();
    t.is((await onA.change('user:edith', { suspended: false })).status, 200);
    const quota = async () => (await onA.send('GET', '/billing/quota', { bearer: key })).body;
    while (Number((await quota()).reserved) > 0) await new Promise((resolve) => setTimeout(resolve, 20));
    t.true(Number((await quota()).used) > 0, 'delivered output is charged');
    t.is((await onB.infer(key)).status, 200);
  },
);
