import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { createIssuerKeys } from '../../../ingress/authentication/issuer-keys.ts';
import { createSignIn, type SignIn } from '../../../ingress/authentication/sign-in.ts';
import { ApiError } from '../../../shared/errors.ts';
import { startIdentityProvider } from '../../stack/identity-provider.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { strangerWith } from '../../support/sign-tokens.ts';
import { usualTokenRules } from '../../support/token-rules.ts';

const audience = 'https://api.example.com';

async function outcomeOf(signIn: SignIn, token: string): Promise<string> {
  return signIn.identify(token).then(
    ({ account }) => account,
    (error: unknown) => (error instanceof ApiError ? error.code : String(error)),
  );
}

/** Retries like a client: on a busy machine, the issuer may not answer within two seconds. */
async function verdictOn(signIn: SignIn, token: string): Promise<string> {
  for (;;) {
    const outcome = await outcomeOf(signIn, token);
    if (outcome !== 'SERVICE_UNAVAILABLE') return outcome;
    await sleep(20);
  }
}

async function temporaryDirectory(t: ExecutionContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'issuer-away-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

async function tokenFrom(issuer: string): Promise<string> {
  const sign = await strangerWith('any');
  return sign({ iss: issuer, aud: audience, sub: 'alice', exp: Math.floor(Date.now() / 1_000) + 600 });
}

test('while the issuer is unavailable known keys stay valid, an unknown one is SERVICE_UNAVAILABLE; later both are accepted', async (t) => {
  const dataDirectory = await temporaryDirectory(t);
  const provider = await startIdentityProvider({ audience, dataDirectory });
  const { issuer, port } = provider;
  using issuerKeys = createIssuerKeys({ issuer, log: recordedLog().log });
  const signIn = createSignIn({
    ...usualTokenRules,
    issuer,
    audiences: [audience],
    issuerKeys,
    log: recordedLog().log,
  });
  const token = await provider.token('alice');
  const unknownKey = await tokenFrom(issuer);
  t.is(await verdictOn(signIn, token), 'user:alice');
  t.is(await verdictOn(signIn, unknownKey), 'INVALID_TOKEN');

  await provider[Symbol.asyncDispose]();
  t.is(await outcomeOf(signIn, token), 'user:alice');
  t.is(
    await outcomeOf(signIn, unknownKey),
    'SERVICE_UNAVAILABLE',
    'an earlier response of the issuer proves nothing now',
  );
  await t.throwsAsync(signIn.check());

  await using again = await startIdentityProvider({ audience, dataDirectory, port });
  t.is(await verdictOn(signIn, unknownKey), 'INVALID_TOKEN');
  t.is(await verdictOn(signIn, await again.token('bob')), 'user:bob');
  await t.notThrowsAsync(signIn.check());
});

test('an issuer that was never reached is SERVICE_UNAVAILABLE, and used as soon as it is available', async (t) => {
  const dataDirectory = await temporaryDirectory(t);
  const early = await startIdentityProvider({ audience, dataDirectory });
  const { issuer, port } = early;
  const token = await early.token('alice');
  await early[Symbol.asyncDispose]();

  const { log, lines } = recordedLog();
  using issuerKeys = createIssuerKeys({ issuer, log });
  const signIn = createSignIn({
    ...usualTokenRules,
    issuer,
    audiences: [audience],
    issuerKeys,
    log: recordedLog().log,
  });
  t.is(await outcomeOf(signIn, token), 'SERVICE_UNAVAILABLE');
  t.is(await outcomeOf(signIn, token), 'SERVICE_UNAVAILABLE');
  await using _late = await startIdentityProvider({ audience, dataDirectory, port });
  t.is(await verdictOn(signIn, token), 'user:alice');
  t.deepEqual(
    lines.map(({ level }) => level),
    ['warn', 'info'],
  );
  t.false(JSON.stringify(lines).includes(token));
});

test('a token of a new key of the issuer is valid immediately, and one of a withdrawn key is not', async (t) => {
  await using provider = await startIdentityProvider({ audience });
  const { issuer } = provider;
  using issuerKeys = createIssuerKeys({ issuer, log: recordedLog().log });
  const signIn = createSignIn({
    ...usualTokenRules,
    issuer,
    audiences: [audience],
    issuerKeys,
    log: recordedLog().log,
  });
  const first = await provider.token('first');
  t.is(await verdictOn(signIn, first), 'user:first');
  await provider.rotateKey();
  const second = await provider.token('second');
  t.deepEqual(await Promise.all([first, second].map((token) => verdictOn(signIn, token))), [
    'user:first',
    'user:second',
  ]);
  await provider.rotateKey({ withdraw: true });
  t.is(await verdictOn(signIn, await provider.token('third')), 'user:third');
  t.deepEqual(await Promise.all([first, second].map((token) => verdictOn(signIn, token))), [
    'INVALID_TOKEN',
    'INVALID_TOKEN',
  ]);
});
