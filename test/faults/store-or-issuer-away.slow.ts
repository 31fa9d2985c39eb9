import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { type IdentityProvider, startIdentityProvider } from '../stack/identity-provider.ts';
import { type RunningIngress, type Stack, startStack } from '../stack/stack.ts';
import {
  callsOfStore,
  callsOfTheSeen,
  type Outage,
  readinessOf,
  survivesOutage,
} from '../support/calls-without-parts.ts';
import { errorsIn } from '../support/errors-in.ts';
import { type Fault, faultTest } from '../support/faults/fault-test.ts';
import { createFileClient, line } from '../support/file-client.ts';
import { type Answer, createKeyClient, type KeyClient } from '../support/key-client.ts';
import { databaseUrl, startMongo, urlThrough } from '../support/mongodb/start-mongo.ts';
import { contentType, file, multipart, purpose } from '../support/multipart.ts';
import { exchange } from '../support/raw-http.ts';
import { head } from '../support/refusal.ts';
import { strangerWith } from '../support/sign-tokens.ts';
import { addressIn, startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

const mongo = await startMongo();
const notRun = 'reason' in mongo ? mongo.reason : undefined;

const parts = new AsyncDisposableStack();
let stack: Stack;
/** The path of the service to MongoDB. */
let proxy: TcpProxy;
/** The provider that is currently running. */
let identity: IdentityProvider;
/** A token for this service, signed with a key that its issuer never had. */
let unknown: string;

test.before(async () => {
  const options: Parameters<typeof startStack>[0] = {};
  if ('url' in mongo) {
    parts.use(mongo);
    proxy = parts.use(await startTcpProxy(addressIn(mongo.url)));
    options.databaseUrl = urlThrough(proxy.port, databaseUrl(mongo.url, `away-${process.pid}`));
  }
  stack = parts.use(await startStack(options));
  identity = stack.identity;
  const sign = await strangerWith('unknown');
  unknown = await sign({
    ...{ iss: identity.issuer, aud: stack.baseUrl, sub: 'bob' },
    exp: Math.floor(Date.now() / 1_000) + 600,
  });
});
test.after.always(() => parts.disposeAsync());

const ofService = (ingress = stack.ingresses[0]) =>
  createKeyClient({ ingresses: stack.ingresses, identity }, { url: () => ingress?.url ?? '' });

/** An ingress that never had the issuer's keys and is not connected to the store, stopped at the end of the test. */
async function newIngress(t: ExecutionContext): Promise<RunningIngress> {
  const ingress = await stack.startIngress();
  stack.ingresses.pop();
  t.teardown(() => ingress.process.stop());
  return ingress;
}

/** Restarts the provider at the address that the service knows, with its previous keys. */
async function isBack(): Promise<void> {
  const { port } = identity;
  const dataDirectory = `${stack.directory}/identity`;
  identity = parts.use(await startIdentityProvider({ audience: stack.baseUrl, port, dataDirectory }));
}

const mint = (token: string, keys = ofService()) =>
  keys.send('POST', '/v1/keys/developer', { bearer: token, body: {} });

/** Retries while the service answers 503, until it has a verdict. */
async function verdictOn(token: string, keys = ofService()): Promise<number> {
  for (;;) {
    const { status } = await mint(token, keys);
    if (status !== 503) return status;
    await sleep(20);
  }
}

function assertComeAgain(t: ExecutionContext, { status, headers, body }: Answer, about?: string): void {
  t.deepEqual([status, body.code, Object.keys(body).sort()], [503, 'SERVICE_UNAVAILABLE', ['code', 'error']], about);
  t.regex(headers.get('retry-after') ?? '', /^[1-9]\d*$/, about);
}

/** Sign-ins with 20 tokens at once. */
const signIns = (at: KeyClient, token: string) =>
  Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`sign-in ${index}`, () => mint(token, at)]));

const withoutStore = { answered: callsOfTheSeen, unavailable: callsOfStore, end: () => proxy.become('pass') };
const withoutIssuer = {
  answered: (at, cast) => ({
    ...callsOfTheSeen(at, cast),
    'mint, a repeat': () => at.mint(`${cast.name}-seen`),
  }),
  unavailable: (at) => signIns(at, unknown),
  async afterwards(t) {
    t.is(await verdictOn(unknown), 401);
    t.is((await mint(await identity.token('bob'))).status, 200);
  },
} satisfies Partial<Outage>;

const outages: (Fault & Outage & { notRun?: string | undefined })[] = [
  {
    id: '14a',
    done: 'the store refuses connections',
    promised:
      'callers known to the ingress: unaffected; other keys and key management: 503, never 401; nothing is lost',
    notRun,
    ...withoutStore,
    begin: () => proxy.become('refuse'),
  },
  {
    id: '14b',
    done: 'the store hangs: it accepts everything and answers nothing',
    promised: 'callers known to the ingress: unaffected; other keys and key management: 503 in time; nothing is lost',
    notRun,
    ...withoutStore,
    begin: () => proxy.become('black hole'),
  },
  {
    id: '22b',
    done: 'the identity provider is down',
    promised: 'tokens signed with a known key: unaffected; others: 503, never 401; works again when it is back',
    ...withoutIssuer,
    async begin(t) {
      t.is(await verdictOn(unknown), 401);
      await identity[Symbol.asyncDispose]();
    },
    end: isBack,
  },
  {
    id: '22c',
    done: 'the identity provider hangs',
    promised: 'tokens signed with a known key: unaffected; others: 503 within their wait; works again when it recovers',
    ...withoutIssuer,
    begin: () => identity.hang(),
    end: () => identity.heal(),
  },
];

for (const { id, done, promised, notRun, ...outage } of outages) {
  faultTest(test.serial, { id, done, promised, notRun }, (t, see) =>
    survivesOutage(t, see, { stack, keys: ofService(), name: id, ...outage }),
  );
}

faultTest(
  test.serial,
  {
    id: '14c',
    done: 'the store is unreachable when the processes start, and again later',
    promised: 'known keys: unaffected; all other calls: 503, never 401; works again when it is back',
    notRun,
  },
  async (t, see) => {
    if ('description' in mongo) see(mongo.description);
    proxy.become('refuse');
    const ingress = await newIngress(t);
    const worker = await stack.startWorker();
    t.teardown(() => worker.process.stop());
    stack.workers.pop();
    const keys = ofService(ingress);
    const early = await keys.mint('alice');
    assertComeAgain(t, early);

    proxy.become('pass');
    t.is(await verdictOn(await keys.token('alice'), keys), 200);
    const key = await keys.newKey('known');
    t.is((await keys.infer(key)).status, 200);
    const neverUsed = await keys.newKey('never used');

    proxy.become('refuse');
    const known = await keys.infer(key);
    t.is(known.status, 200);
    const other = await keys.models(neverUsed);
    assertComeAgain(t, other);
    t.is((await keys.infer(neverUsed)).status, 503);
    t.is(await readinessOf(ingress), 200);
    const readiness = await (await fetch(`${ingress.operationsUrl}/readyz`)).json();
    t.like(readiness, { dependencies: { store: { state: 'degraded' } } });

    proxy.become('pass');
    t.is((await keys.infer(neverUsed)).status, 200);
    see(`key management: ${early.status}, then 200; a known key: ${known.status}; another: ${other.status}, then 200`);
  },
);

faultTest(
  test.serial,
  {
    id: '10h',
    done: 'the store commits a rotation and its reply is lost',
    promised: '503; the old key stops working, and repeating the request is safe',
    notRun,
  },
  async (t, see) => {
    const keys = ofService();
    const key = await keys.newKey('rotating');
    t.is((await keys.models(key)).status, 200);

    const made = proxy.holdAfter('keyRotated');
    const lost = keys.rotate('rotating', key);
    await made;
    void proxy.holdAfter('text that is never sent');
    t.is((await keys.models(key)).status, 401, 'it takes effect before its reply is sent');
    const first = await lost;
    assertComeAgain(t, first);
    const second = await keys.rotate('rotating', key);
    t.like(second, { status: 401, body: { code: 'INVALID_KEY' } });

    const listed = await keys.list('rotating');
    t.deepEqual(
      listed.map(({ state }) => state),
      ['active', 'rotated'],
    );
    const again = await keys.rotate('rotating', listed[0]?.key ?? '');
    t.is((await keys.models(String(again.body.key))).status, 200);
    t.is((await keys.models(key)).status, 401);
    t.deepEqual(errorsIn(stack.ingresses), []);
    const active = listed.filter(({ state }) => state === 'active').length;
    see(`a rotation: ${first.status}, and ${second.status} when repeated; active keys: ${active}`);
  },
);

faultTest(
  test.serial,
  {
    id: 'B6',
    done: 'the store is unreachable for files and batches, during an upload',
    promised: '503 with Retry-After; an incomplete upload leaves no file; works again when it is back',
    notRun,
  },
  async (t, see) => {
    const keys = ofService();
    const key = await keys.newKey('uploading');
    const files = createFileClient(stack, key);
    const kept = (await files.upload(line('a'))).id;
    const batch = (await files.submitBatch(kept)).id;
    const port = Number(new URL(stack.ingresses[0]?.url ?? '').port);

    const body = multipart([purpose, file(`${line('a')}\n`.repeat(20_000))]);
    const answer = await exchange({
      port,
      withinMs: 40_000,
      async send(socket) {
        const lines = [`Authorization: Bearer ${key}`, contentType(), `Content-Length: ${body.length}`];
        socket.write(head('POST /v1/files HTTP/1.1', ...lines));
        socket.write(body.subarray(0, 100_000));
        await sleep(500);
        proxy.become('refuse');
        if (!socket.write(body.subarray(100_000))) await once(socket, 'drain');
      },
    });
    t.deepEqual([answer.status, JSON.parse(answer.body).code], [503, 'SERVICE_UNAVAILABLE'], answer.body);
    t.truthy(answer.headers['retry-after']);

    const paths = [
      ['GET', '/v1/files'],
      ['GET', `/v1/files/${kept}`],
      ['GET', `/v1/files/${kept}/content`],
      ['DELETE', `/v1/files/${kept}`],
      ['GET', '/v1/batches'],
      ['GET', `/v1/batches/${batch}`],
      ['POST', `/v1/batches/${batch}/cancel`],
    ] as const;
    for (const [method, path] of paths) assertComeAgain(t, await keys.send(method, path, { bearer: key }), path);

    proxy.become('pass');
    const { data } = (await files.files()) as unknown as { data: { id: string; purpose: string }[] }; // a list of the service itself
    const uploaded = data.filter(({ purpose }) => purpose === 'batch');
    t.deepEqual(
      uploaded.map(({ id }) => id),
      [kept],
      'the interrupted upload left no file',
    );
    t.is((await files.upload(line('b'))).object, 'file');
    see(`${1 + paths.length} of ${1 + paths.length} calls got 503, an upload among them`);
  },
);

const agesOf = async ({ operationsUrl }: RunningIngress) =>
  [...(await (await fetch(`${operationsUrl}/metrics`)).text()).matchAll(/^svc_issuer_keys_age_seconds (\S+)$/gm)].map(
    ([, age]) => Number(age),
  );

faultTest(
  test.serial,
  {
    id: '22a',
    done: 'an ingress starts while the identity provider is unreachable',
    promised: 'sign-in gets 503 and never 401; keys continue to work; it recovers',
  },
  async (t, see) => {
    const key = await ofService().newKey('early');
    const token = await identity.token('bob');
    await identity[Symbol.asyncDispose]();
    const ingress = await newIngress(t);
    const keys = ofService(ingress);

    assertComeAgain(t, await mint(token, keys));
    t.is(await readinessOf(ingress), 200, 'an unreachable provider does not make the ingress unready');
    const answer = await keys.infer(key);
    t.is(answer.status, 200);

    await isBack();
    const minted = await mint(token, keys);
    t.is(minted.status, 200);
    see(`a sign-in: 503, then ${minted.status}; a request with a key meanwhile: ${answer.status}`);
  },
);

faultTest(
  test.serial,
  {
    id: '22e',
    done: 'an ingress never had the keys of a provider that hangs',
    promised: 'sign-in gets 503 until the keys are available',
  },
  async (t, see) => {
    const token = await identity.token('alice');
    identity.hang();
    const ingress = await newIngress(t);
    t.deepEqual(await agesOf(ingress), []);
    assertComeAgain(t, await mint(token, ofService(ingress)));

    identity.heal();
    t.is(await verdictOn(token, ofService(ingress)), 200);
    const [age] = await agesOf(ingress);
    t.true(age !== undefined && age >= 0);
    see('1 sign-in got 503, and 200 as soon as the keys were available');
  },
);

faultTest(
  test.serial,
  {
    id: '22d',
    done: 'the identity provider rotates its keys',
    promised: 'its own tokens are never refused; tokens of a withdrawn key get 401',
  },
  async (t, see) => {
    const tokens = [await identity.token('first')];
    const verdicts = () => Promise.all(tokens.map((token) => verdictOn(token)));
    t.deepEqual(await verdicts(), [200]);
    for (const account of ['second', 'third', 'fourth']) {
      await identity.rotateKey();
      tokens.push(await identity.token(account));
      t.deepEqual(
        await verdicts(),
        tokens.map(() => 200),
      );
    }

    await identity.rotateKey({ withdraw: true });
    t.is(await verdictOn(await identity.token('fifth')), 200);
    t.deepEqual(
      await verdicts(),
      tokens.map(() => 401),
    );
    see(`${tokens.length} of ${tokens.length} tokens signed in over 3 rotations, 0 after their keys were withdrawn`);
  },
);
