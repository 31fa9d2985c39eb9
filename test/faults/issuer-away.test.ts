import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { type IdentityProvider, startIdentityProvider } from '../stack/identity-provider.ts';
import { answerFor } from '../stack/model-server.ts';
import { type RunningIngress, type Stack, startStack } from '../stack/stack.ts';
import { chat, wholeText } from '../support/chat.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { strangerWith } from '../support/sign-tokens.ts';

const parts = new AsyncDisposableStack();
let stack: Stack;
/** The provider that is currently running. */
let identity: IdentityProvider;
/** A token for this service, signed with a key that its issuer never had. */
let unknown: string;

test.before(async () => {
  stack = parts.use(await startStack());
  identity = stack.identity;
  const sign = await strangerWith('unknown');
  unknown = await sign({
    ...{ iss: identity.issuer, aud: stack.baseUrl, sub: 'bob' },
    exp: Math.floor(Date.now() / 1_000) + 600,
  });
});
test.after.always(() => parts.disposeAsync());

/** Restarts the provider at the address that the service knows, with its previous keys. */
async function isBack(): Promise<void> {
  const { port } = identity;
  const dataDirectory = `${stack.directory}/identity`;
  identity = parts.use(await startIdentityProvider({ audience: stack.baseUrl, port, dataDirectory }));
}

/** An ingress that never had the issuer's keys, stopped at the end of the test. */
async function newIngress(t: ExecutionContext): Promise<RunningIngress> {
  const ingress = await stack.startIngress();
  t.teardown(() => ingress.process.stop());
  return ingress;
}

function mint(token: string, ingress = stack.ingresses[0]): Promise<Response> {
  return fetch(`${ingress?.url}/v1/keys/developer`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    body: '{}',
    signal: AbortSignal.timeout(30_000),
  });
}

async function statusOf(token: string, ingress = stack.ingresses[0]): Promise<number> {
  const response = await mint(token, ingress);
  await response.body?.cancel();
  return response.status;
}

/** Retries while the service answers 503, until it has a verdict. */
async function verdictOn(token: string, ingress = stack.ingresses[0]): Promise<number> {
  for (;;) {
    const status = await statusOf(token, ingress);
    if (status !== 503) return status;
    await sleep(20);
  }
}

async function assertComeAgain(t: ExecutionContext, response: Response): Promise<void> {
  t.is(response.status, 503);
  t.regex(response.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
  const body = await response.json();
  t.like(body, { code: 'SERVICE_UNAVAILABLE' });
  t.deepEqual(Object.keys(body as object).sort(), ['code', 'error']);
}

const agesOf = async (ingress = stack.ingresses[0]) =>
  [
    ...(await (await fetch(`${ingress?.operationsUrl}/metrics`)).text()).matchAll(
      /^svc_issuer_keys_age_seconds (\S+)$/gm,
    ),
  ].map(([, age]) => Number(age));

faultTest(
  test.serial,
  {
    id: '22a',
    done: 'an ingress starts while the identity provider is unreachable',
    promised: 'sign-in gets 503 and never 401; keys continue to work; it recovers',
  },
  async (t, see) => {
    const key = await stack.mintKey('alice');
    const token = await identity.token('bob');
    await identity[Symbol.asyncDispose]();
    const ingress = await newIngress(t);

    const refused = await mint(token, ingress);
    await assertComeAgain(t, refused);
    const readiness = await fetch(`${ingress.operationsUrl}/readyz`);
    t.is(readiness.status, 200, 'an unreachable provider does not make the ingress unready');
    const question = 'Still there?';
    const answer = await chat({ url: ingress.url, key, question });
    t.is(await wholeText(answer), answerFor([{ role: 'user', content: question }]));

    await isBack();
    const minted = await statusOf(token, ingress);
    t.is(minted, 200);
    see(`a sign-in: ${refused.status}, then ${minted}; a request with a key meanwhile: ${answer.status}`);
  },
);

faultTest(
  test.serial,
  {
    id: '22b',
    done: 'the identity provider is down',
    promised: 'tokens signed with a known key: unaffected; others: 503, never 401; works again when it is back',
  },
  async (t, see) => {
    const token = await identity.token('alice');
    t.is(await verdictOn(token), 200);
    t.is(await verdictOn(unknown), 401);
    t.is((await agesOf()).length, 1);

    await identity[Symbol.asyncDispose]();
    t.is(await statusOf(token), 200);
    const refused = await Promise.all(Array.from({ length: 20 }, () => mint(unknown)));
    for (const response of refused) await assertComeAgain(t, response);
    t.is(await statusOf(token), 200);

    await isBack();
    t.is(await verdictOn(unknown), 401);
    t.is(await statusOf(await identity.token('bob')), 200);
    see(`${refused.length} of ${refused.length} tokens of unknown keys got 503, 3 of 3 of a known key signed in`);
  },
);

faultTest(
  test.serial,
  {
    id: '22c',
    done: 'the identity provider hangs',
    promised: 'tokens signed with a known key: unaffected; others: 503 within their wait; works again when it recovers',
  },
  async (t, see) => {
    const token = await identity.token('alice');
    t.is(await verdictOn(token), 200);

    identity.hang();
    const waiting = Array.from({ length: 20 }, () => mint(unknown));
    t.deepEqual(await Promise.all(Array.from({ length: 20 }, () => statusOf(token))), Array(20).fill(200));
    for (const response of await Promise.all(waiting)) await assertComeAgain(t, response);
    t.is(await statusOf(token), 200);

    identity.heal();
    t.is(await verdictOn(unknown), 401);
    t.is(await statusOf(await identity.token('bob')), 200);
    see(`${waiting.length} of ${waiting.length} tokens of an unknown key got 503, 21 of 21 of a known key signed in`);
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
    t.is(await verdictOn(tokens[0] ?? ''), 200);
    for (const account of ['second', 'third', 'fourth']) {
      await identity.rotateKey();
      tokens.push(await identity.token(account));
      t.deepEqual(
        await Promise.all(tokens.map((token) => verdictOn(token))),
        tokens.map(() => 200),
      );
    }

    await identity.rotateKey({ withdraw: true });
    t.is(await verdictOn(await identity.token('fifth')), 200);
    t.deepEqual(
      await Promise.all(tokens.map((token) => verdictOn(token))),
      tokens.map(() => 401),
    );
    see(`${tokens.length} of ${tokens.length} tokens signed in over 3 rotations, 0 after their keys were withdrawn`);
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
    await assertComeAgain(t, await mint(token, ingress));

    identity.heal();
    t.is(await verdictOn(token, ingress), 200);
    const [age] = await agesOf(ingress);
    t.true(age !== undefined && age >= 0);
    see('1 sign-in got 503, and 200 as soon as the keys were available');
  },
);
