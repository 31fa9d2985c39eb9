import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mock } from 'node:test';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { createSignIn, type SignIn } from '../../ingress/sign-in.ts';
import { ApiError } from '../../shared/errors.ts';
import { startIdentityProvider } from '../stack/identity-provider.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { strangerWith } from '../support/sign-tokens.ts';

const audience = 'https://api.example.com';
const { log } = recordedLog();

async function outcomeOf(signIn: SignIn, token: string): Promise<string> {
  return signIn.identify(token).then(
    ({ account }) => account,
    (error: unknown) => (error instanceof ApiError ? error.code : String(error)),
  );
}

/** An issuer that answers as a test says, for what the real one would never do. */
async function startIssuer(t: ExecutionContext, answer: (issuer: string) => RequestListener): Promise<string> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`; // a TCP server's address
  server.on('request', answer(issuer));
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return issuer;
}

const discovery = (issuer: string, wishes: object = {}) =>
  JSON.stringify({ issuer, jwks_uri: `${issuer}/jwks`, ...wishes });

async function tokenFrom(issuer: string): Promise<string> {
  const sign = await strangerWith('any');
  return sign({ iss: issuer, aud: audience, sub: 'alice', exp: Math.floor(Date.now() / 1_000) + 600 });
}

test.serial(
  'with the issuer away known keys go on, an unknown one is SERVICE_UNAVAILABLE, and both pass',
  async (t) => {
    const dataDirectory = await mkdtemp(join(tmpdir(), 'issuer-away-'));
    t.teardown(() => rm(dataDirectory, { recursive: true, force: true }));
    const provider = await startIdentityProvider({ audience, dataDirectory });
    const { issuer, port } = provider;
    const signIn = createSignIn({ issuer, audience, log });
    const token = await provider.token('alice');
    const unknownKey = await tokenFrom(issuer);
    t.is(await outcomeOf(signIn, token), 'user:alice');
    t.is(
      await outcomeOf(signIn, unknownKey),
      'INVALID_TOKEN',
      'the issuer has said a moment ago that it is not its own',
    );
    await provider[Symbol.asyncDispose]();
    t.is(await outcomeOf(signIn, token), 'user:alice');

    // A minute later what the issuer said is no proof any more that a key is not its own; that a key is, stays one.
    mock.timers.enable({ apis: ['Date'], now: Date.now() + 60_000 });
    t.teardown(() => mock.timers.reset());
    t.is(await outcomeOf(signIn, unknownKey), 'SERVICE_UNAVAILABLE');
    t.is(await outcomeOf(signIn, token), 'user:alice');

    await using again = await startIdentityProvider({ audience, dataDirectory, port });
    t.is(await outcomeOf(signIn, unknownKey), 'INVALID_TOKEN');
    t.is(await outcomeOf(signIn, await again.token('bob')), 'user:bob');
  },
);

test('an issuer that was never reached is SERVICE_UNAVAILABLE, and found as soon as it is there', async (t) => {
  const dataDirectory = await mkdtemp(join(tmpdir(), 'issuer-late-'));
  t.teardown(() => rm(dataDirectory, { recursive: true, force: true }));
  const early = await startIdentityProvider({ audience, dataDirectory });
  const token = await early.token('alice');
  await early[Symbol.asyncDispose]();

  const signIn = createSignIn({ issuer: early.issuer, audience, log });
  t.is(await outcomeOf(signIn, token), 'SERVICE_UNAVAILABLE');
  t.is(await outcomeOf(signIn, 'garbage'), 'INVALID_TOKEN', 'for this nobody has to be asked');
  await using _late = await startIdentityProvider({ audience, dataDirectory, port: early.port });
  t.is(await outcomeOf(signIn, token), 'user:alice');
});

test('an issuer that hangs is given up after two seconds, by all who wait at once', async (t) => {
  let asked = 0;
  const silent = await startIssuer(t, () => () => {
    asked++;
  });
  const halfway = await startIssuer(t, (issuer) => (request, response) => {
    if (request.url !== '/jwks') response.end(discovery(issuer));
  });
  for (const issuer of [silent, halfway]) {
    const signIn = createSignIn({ issuer, audience, log });
    const token = await tokenFrom(issuer);
    const startedAt = performance.now();
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => outcomeOf(signIn, token)));
    const tookMs = performance.now() - startedAt;
    t.deepEqual(new Set(outcomes), new Set(['SERVICE_UNAVAILABLE']));
    t.true(tookMs < 6_000, `${tookMs} ms`);
  }
  t.is(asked, 1);
});

test('an issuer that answers anything but its documents is SERVICE_UNAVAILABLE', async (t) => {
  const wrong: ((issuer: string) => RequestListener)[] = [
    () => (_request, response) => response.writeHead(500).end('{}'),
    () => (_request, response) => response.end('<html>'),
    () => (_request, response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(),
    (issuer) => (request, response) =>
      response.end(request.url === '/jwks' ? '{"keys":[]}' : discovery(issuer, { issuer: 'https://other.example' })),
    (issuer) => (_request, response) => response.end(discovery(issuer, { jwks_uri: 'file:///etc/passwd' })),
    (issuer) => (request, response) => response.end(request.url === '/jwks' ? '<html>' : discovery(issuer)),
    (issuer) => (request, response) => response.end(request.url === '/jwks' ? '{"keys":1}' : discovery(issuer)),
    (issuer) => (request, response) =>
      request.url === '/jwks' ? response.writeHead(503).end() : response.end(discovery(issuer)),
  ];
  for (const [index, answer] of wrong.entries()) {
    const issuer = await startIssuer(t, answer);
    const signIn = createSignIn({ issuer, audience, log });
    t.is(await outcomeOf(signIn, await tokenFrom(issuer)), 'SERVICE_UNAVAILABLE', String(index));
  }
});
