import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { startIdentityProvider } from '../stack/identity-provider.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { strangerWith } from '../support/sign-tokens.ts';

/** Far above what is promised (two seconds), far below what a hang would be: no verdict on a noisy machine's speed. */
const neverAHangMs = 15_000;

function mint(stack: Stack, token: string): Promise<Response> {
  return fetch(`${stack.ingresses[0]?.url}/v1/keys/developer`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    body: '{}',
    signal: AbortSignal.timeout(neverAHangMs),
  });
}

async function statusOf(stack: Stack, token: string): Promise<number> {
  const response = await mint(stack, token);
  await response.body?.cancel();
  return response.status;
}

/** What is said in the end, by a service that may ask to come again while it does not know. */
async function verdictOn(stack: Stack, token: string): Promise<number> {
  for (;;) {
    const status = await statusOf(stack, token);
    if (status !== 503) return status;
    await sleep(20);
  }
}

/** For this service, by a key that its issuer has never had. */
async function tokenOfUnknownKey({ identity, baseUrl }: Stack): Promise<string> {
  const sign = await strangerWith('unknown');
  return sign({ iss: identity.issuer, aud: baseUrl, sub: 'bob', exp: Math.floor(Date.now() / 1_000) + 600 });
}

async function assertComeAgain(t: ExecutionContext, response: Response): Promise<void> {
  t.is(response.status, 503);
  t.regex(response.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
  const body = await response.json();
  t.like(body, { code: 'SERVICE_UNAVAILABLE' });
  t.deepEqual(Object.keys(body as object).sort(), ['code', 'error']);
}

const agesOf = async (stack: Stack) =>
  [
    ...(await (await fetch(`${stack.ingresses[0]?.operationsUrl}/metrics`)).text()).matchAll(
      /^svc_issuer_keys_age_seconds (\S+)$/gm,
    ),
  ].map(([, age]) => Number(age));

faultTest(
  test,
  {
    id: '22b',
    done: 'the identity provider is down',
    promised: 'tokens signed with a known key: unaffected; others: 503, never 401; well again when it is back',
  },
  async (t, see) => {
    await using stack = await startStack({ workers: 0 });
    const { identity, directory, baseUrl } = stack;
    const [token, unknown] = await Promise.all([identity.token('alice'), tokenOfUnknownKey(stack)]);
    t.is(await verdictOn(stack, token), 200);
    t.is(await verdictOn(stack, unknown), 401);
    t.is((await agesOf(stack)).length, 1);

    await identity[Symbol.asyncDispose]();
    t.is(await statusOf(stack, token), 200);
    const refused = await Promise.all(Array.from({ length: 20 }, () => mint(stack, unknown)));
    for (const response of refused) await assertComeAgain(t, response);
    t.is(await statusOf(stack, token), 200);

    const dataDirectory = `${directory}/identity`;
    await using back = await startIdentityProvider({ audience: baseUrl, port: identity.port, dataDirectory });
    t.is(await verdictOn(stack, unknown), 401);
    t.is(await statusOf(stack, await back.token('bob')), 200);
    see(`${refused.length} of ${refused.length} tokens of unknown keys told by 503, 3 of 3 of a known key signed in`);
  },
);

faultTest(
  test,
  {
    id: '22c',
    done: 'the identity provider hangs',
    promised:
      'tokens signed with a known key: unaffected; others: 503 within the time that they wait; well again when it heals',
  },
  async (t, see) => {
    await using stack = await startStack({ workers: 0 });
    const { identity } = stack;
    const [token, unknown] = await Promise.all([identity.token('alice'), tokenOfUnknownKey(stack)]);
    t.is(await verdictOn(stack, token), 200);

    identity.hang();
    const waiting = Array.from({ length: 20 }, () => mint(stack, unknown));
    t.deepEqual(await Promise.all(Array.from({ length: 20 }, () => statusOf(stack, token))), Array(20).fill(200));
    for (const response of await Promise.all(waiting)) await assertComeAgain(t, response);
    t.is(await statusOf(stack, token), 200);

    identity.heal();
    t.is(await verdictOn(stack, unknown), 401);
    t.is(await statusOf(stack, await identity.token('bob')), 200);
    see(
      `${waiting.length} of ${waiting.length} tokens of an unknown key told by 503, 21 of 21 of a known key signed in`,
    );
  },
);

faultTest(
  test,
  {
    id: '22d',
    done: 'the identity provider rotates its keys',
    promised: 'no token of its own is ever refused; those of a withdrawn key are 401',
  },
  async (t, see) => {
    await using stack = await startStack({ workers: 0 });
    const { identity } = stack;
    const tokens = [await identity.token('first')];
    t.is(await verdictOn(stack, tokens[0] ?? ''), 200);
    for (const account of ['second', 'third', 'fourth']) {
      await identity.rotateKey();
      tokens.push(await identity.token(account));
      t.deepEqual(
        await Promise.all(tokens.map((token) => verdictOn(stack, token))),
        tokens.map(() => 200),
      );
    }

    await identity.rotateKey({ withdraw: true });
    t.is(await verdictOn(stack, await identity.token('fifth')), 200);
    t.deepEqual(
      await Promise.all(tokens.map((token) => verdictOn(stack, token))),
      tokens.map(() => 401),
    );
    see(`${tokens.length} of ${tokens.length} tokens signed in over 3 rotations, 0 after their keys were withdrawn`);
  },
);

faultTest(
  test,
  {
    id: '22e',
    done: 'an ingress has never had the keys of a provider that hangs',
    promised: 'signing in is 503 until the keys are there',
  },
  async (t, see) => {
    await using stack = await startStack({ ingresses: 0, workers: 0 });
    const { identity } = stack;
    const token = await identity.token('alice');
    identity.hang();
    await stack.startIngress();
    t.deepEqual(await agesOf(stack), []);
    await assertComeAgain(t, await mint(stack, token));

    identity.heal();
    t.is(await verdictOn(stack, token), 200);
    const [age] = await agesOf(stack);
    t.true(age !== undefined && age >= 0);
    see('1 sign-in told by 503, and 200 as soon as the keys were there');
  },
);
