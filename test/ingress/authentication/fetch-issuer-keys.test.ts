import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { exportJWK, generateKeyPair } from 'jose';
import { endpointOriginsIn, fetchIssuerKeys, keySetAddress } from '../../../ingress/authentication/issuer-keys.ts';
import { makeCertificate } from '../../support/certificates.ts';

type Answer = (response: ServerResponse, issuer: string) => void;

/** An issuer with these documents, or valid ones; records the requested paths. */
async function startIssuer(t: ExecutionContext, answers: Readonly<Record<string, Answer>> = {}) {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`; // a TCP server's address
  const paths: string[] = [];
  const known: Readonly<Record<string, Answer>> = { [wellKnown]: discovery(), '/jwks': keySet(), ...answers };
  const listener: RequestListener = ({ url = '' }, response) => {
    paths.push(url);
    const answer = known[url];
    if (answer === undefined) response.writeHead(404).end();
    else answer(response, issuer);
  };
  server.on('request', listener);
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return { issuer, paths };
}

const wellKnown = '/.well-known/openid-configuration';
const key = (kid: string, wishes: object = {}) => ({ kty: 'EC', crv: 'P-256', kid, ...wishes });
const text =
  (body: string): Answer =>
  (response) =>
    void response.end(body);
const discovery =
  (wishes: object = {}): Answer =>
  (response, issuer) =>
    void response.end(JSON.stringify({ issuer, jwks_uri: `${issuer}/jwks`, ...wishes }));
const keySet = (...keys: unknown[]) => text(JSON.stringify({ keys: keys.length === 0 ? [key('one')] : keys }));
const status =
  (code: number, headers: Record<string, string> = {}): Answer =>
  (response) =>
    void response.writeHead(code, headers).end(code === 204 ? undefined : '{"keys":[]}');

/** A JSON document of this many bytes. */
const longKeys = (bytes: number) =>
  JSON.stringify({ keys: [{}], padding: '' }).replace('""', `"${'x'.repeat(bytes - 26)}"`);
const documentBytesMax = 524_288;

const patience = () => AbortSignal.timeout(30_000);
const keyIds = async (issuer: string) =>
  (await fetchIssuerKeys(issuer, patience())).keys.jwks().keys.map(({ kid }) => kid);

test('the keys are fetched from the address in the discovery document, which is read each time', async (t) => {
  let moved = false;
  const { issuer, paths } = await startIssuer(t, {
    [wellKnown]: (response, at) => discovery({ jwks_uri: `${at}/${moved ? 'elsewhere' : 'jwks'}` })(response, at),
    '/elsewhere': keySet(key('two'), key('three')),
  });
  t.deepEqual(await keyIds(issuer), ['one']);
  moved = true;
  t.deepEqual(await keyIds(issuer), ['two', 'three']);
  t.deepEqual(paths, [wellKnown, '/jwks', wellKnown, '/elsewhere']);
});

test('an issuer may have a path, and a slash at its end', async (t) => {
  for (const path of ['/', '/tenant', '/tenant/']) {
    const at = `${path.replace(/\/$/, '')}${wellKnown}`;
    const { issuer } = await startIssuer(t, {
      [at]: (response, origin) => discovery({ issuer: `${origin}${path}` })(response, origin),
    });
    t.deepEqual(await keyIds(`${issuer}${path}`), ['one'], path);
  }
});

test('an unknown kind of key leaves the others usable', async (t) => {
  const strange = [key('a', { kty: 'quantum' }), { kid: 5 }, {}, JSON.parse('{"__proto__":1,"kid":"__proto__"}')];
  const { issuer } = await startIssuer(t, { '/jwks': keySet(key('one'), ...strange) });
  t.deepEqual((await keyIds(issuer)).slice(0, 2), ['one', 'a']);
});

test('an issuer with https must not name keys without https', (t) => {
  for (const [issuer, keys, expected] of [
    ['https://issuer.example', 'https://keys.example/jwks', true],
    ['https://issuer.example', 'http://issuer.example/jwks', false],
    ['HTTPS://issuer.example', 'HTTP://issuer.example/jwks', false],
    ['http://localhost:8083', 'http://localhost:8083/jwks', true],
    ['http://localhost:8083', 'https://keys.example/jwks', true],
  ] as const) {
    const address = () => keySetAddress(issuer, { issuer, jwks_uri: keys });
    if (expected) t.is(address(), keys);
    else t.throws(address, { message: /without it/ }, keys);
  }
});

test('the origins of the endpoints are those of valid addresses, with TLS if the issuer has it', async (t) => {
  const endpoints = (token: unknown, revocation?: unknown) => ({
    ...{ token_endpoint: token, revocation_endpoint: revocation, authorization_endpoint: 'https://pages.example/' },
  });
  for (const [discovered, origins] of [
    [
      endpoints('https://token.example/x', 'https://revoke.example:8443/y?z'),
      ['https://token.example', 'https://revoke.example:8443'],
    ],
    [endpoints('https://token.example/x', 'https://token.example/y'), ['https://token.example']],
    [endpoints('https://[::1]:9/x'), ['https://[::1]:9']],
    [endpoints('http://token.example/x'), []],
    [endpoints('https://a;sandbox/x', "https://a,b'/x"), []],
    [endpoints('data:text/plain,x', 5), []],
    [endpoints("'unsafe-inline'", '* https://token.example'), []],
    [{}, []],
  ] as const) {
    t.deepEqual(
      endpointOriginsIn('https://issuer.example/realm', discovered),
      [...origins],
      JSON.stringify(discovered),
    );
  }
  t.deepEqual(endpointOriginsIn('http://localhost', endpoints('http://localhost:1/x')), ['http://localhost:1']);
  const { issuer } = await startIssuer(t, {
    [wellKnown]: discovery(endpoints('not an address', 'http://elsewhere.example/')),
  });
  const { keys, endpointOrigins } = await fetchIssuerKeys(issuer, patience());
  t.is(keys.jwks().keys.length, 1, 'an invalid endpoint does not keep the keys from use');
  t.deepEqual(endpointOrigins, ['http://elsewhere.example']);
});

test('a document is read up to half a mebibyte', async (t) => {
  t.is(longKeys(documentBytesMax).length, documentBytesMax);
  const { issuer } = await startIssuer(t, { '/jwks': text(longKeys(documentBytesMax)) });
  t.deepEqual(await keyIds(issuer), [undefined]);
});

const endless: Answer = (response) => {
  const write = () => {
    while (!response.destroyed && response.write(' '.repeat(65_536)));
    if (!response.destroyed) response.once('drain', write);
  };
  write();
};

const faults: [title: string, path: string, answer: Answer, message: RegExp][] = [
  ['no keys, as from an issuer that is starting', '/jwks', text('{"keys":[]}'), /keys/],
  ['a document that is too long', '/jwks', text(longKeys(documentBytesMax + 1)), /more than 524288 bytes/],
  ['a document without an end', '/jwks', endless, /more than 524288 bytes/],
  ['a discovery without an end', wellKnown, endless, /more than 524288 bytes/],
  [
    'a decompression bomb',
    '/jwks',
    (response) =>
      void response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(Buffer.alloc(50_000_000, ' '))),
    /more than 524288 bytes/,
  ],
  ['a redirect', '/jwks', status(302, { location: '/elsewhere' }), /fetch failed/],
  ['a redirect of discovery', wellKnown, status(301, { location: '/elsewhere' }), /fetch failed/],
  ['a fault', '/jwks', status(500), /answered 500/],
  ['nothing', '/jwks', status(204), /answered 204/],
  ['a part', '/jwks', status(206), /answered 206/],
  ['a page', '/jwks', text('<html>'), /not valid JSON/],
  ['a page for discovery', wellKnown, text('<html>'), /not valid JSON/],
  ['another issuer', wellKnown, discovery({ issuer: 'https://other.example' }), /another issuer/],
  ['no address of the keys', wellKnown, discovery({ jwks_uri: undefined }), /jwks_uri/],
  ['an address that is a file', wellKnown, discovery({ jwks_uri: 'file:///etc/passwd' }), /jwks_uri/],
  ['an address that is data', wellKnown, discovery({ jwks_uri: 'data:application/json,{"keys":[]}' }), /jwks_uri/],
  ['keys that are not a list', '/jwks', text('{"keys":1}'), /keys/],
  ['a key that is not an object', '/jwks', keySet(key('one'), 'two'), /keys/],
  ['no keys', '/jwks', text('{}'), /keys/],
  ['too many keys', '/jwks', keySet(...Array.from({ length: 101 }, (_, index) => key(`${index}`))), /keys/],
];
for (const [title, path, answer, message] of faults) {
  test(`${title} is a failure`, async (t) => {
    const { issuer, paths } = await startIssuer(t, { '/elsewhere': keySet(), [path]: answer });
    await t.throwsAsync(fetchIssuerKeys(issuer, patience()), { message });
    t.false(paths.includes('/elsewhere'));
  });
}

test('an abort ends the fetch before a response and during it', async (t) => {
  for (const began of [false, true]) {
    const giveUp = new AbortController();
    const { issuer } = await startIssuer(t, {
      '/jwks': (response) => {
        if (began) response.write('{"keys":');
        setImmediate(() => giveUp.abort(new Error('enough')));
      },
    });
    await t.throwsAsync(fetchIssuerKeys(issuer, giveUp.signal), { message: 'enough' });
  }
});

test('an issuer with a certificate of the operator is reached if NODE_EXTRA_CA_CERTS names the authority', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'issuer-certificate-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const { certFile, cert, key } = await makeCertificate(folder, 'issuer');
  const { publicKey } = await generateKeyPair('ES256');
  const keys = { keys: [await exportJWK(publicKey)] };
  let issuer = '';
  const server = createSecureServer({ cert, key }, ({ url }, response) => {
    response.end(JSON.stringify(url === '/keys' ? keys : { issuer, jwks_uri: `${issuer}/keys` }));
  }).listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  issuer = `https://127.0.0.1:${(server.address() as AddressInfo).port}`; // a TCP server's address
  const file = new URL('../../../ingress/authentication/issuer-keys.ts', import.meta.url);
  const program = `const { fetchIssuerKeys } = await import('${file}');
    await fetchIssuerKeys('${issuer}', AbortSignal.timeout(10_000));`;
  const fetchWith = (env: Record<string, string>) =>
    promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], { env: { ...process.env, ...env } });
  await t.notThrowsAsync(fetchWith({ NODE_EXTRA_CA_CERTS: certFile }));
  const failure = await t.throwsAsync<Error & { stderr: string }>(fetchWith({ NODE_EXTRA_CA_CERTS: '' }));
  t.regex(failure?.stderr ?? '', /DEPTH_ZERO_SELF_SIGNED_CERT/);
});
