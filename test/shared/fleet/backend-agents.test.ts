import { once } from 'node:events';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { createBackendAgents } from '../../../shared/fleet/backend-agents.ts';
import { fileIssuesOf } from '../../../shared/plan-file/backend-files.ts';
import { type Certificate, makeCertificate } from '../../support/certificates.ts';

async function folderOf(t: ExecutionContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'agents-'));
  t.teardown(() => rm(folder, { recursive: true }));
  return folder;
}

/** A server that wants a certificate of its callers, and answers with its name. It ends each connection. */
async function serve(t: ExecutionContext, own: Certificate, trusted: readonly Certificate[]): Promise<string> {
  const options = { cert: own.cert, key: own.key, ca: trusted.map(({ cert }) => cert) };
  const server = createServer({ ...options, requestCert: true, rejectUnauthorized: false }, (request, response) => {
    const socket = request.socket as TLSSocket; // of an HTTPS server
    const { subject } = socket.getPeerCertificate();
    response.setHeader('connection', 'close').end(socket.authorized ? subject.CN : 'stranger');
  }).listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}`; // a TCP server's address
}

test('a backend with its own authority is trusted, shown the certificate of this backend, and no other one is', async (t) => {
  const folder = await folderOf(t);
  const [server, client] = await Promise.all(['server', 'client'].map((name) => makeCertificate(folder, name)));
  if (server === undefined || client === undefined) throw new Error('no certificates');
  const url = await serve(t, server, [client]);
  const agents = createBackendAgents({ connectMs: () => 20_000, onUnreadable() {} });
  t.teardown(() => agents[Symbol.asyncDispose]());
  const ask = async (files: Parameters<typeof agents.of>[0]) => {
    const { body } = await agents.of(files).request({ origin: url, path: '/', method: 'GET' });
    return body.text();
  };
  const caFile = server.certFile;
  const withClient = { caFile, clientCertFile: client.certFile, clientKeyFile: client.keyFile };
  t.is(await ask({ caFile }), 'stranger');
  t.is(await ask(withClient), 'client');
  await t.throwsAsync(ask({}), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' });
  await t.throwsAsync(ask({ caFile: client.certFile }), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' });
  await t.throwsAsync(ask({ caFile: join(folder, 'none.pem') }), { code: 'ENOENT' });
  t.is(agents.of({ caFile }), agents.of({ caFile }), 'one agent for the same files');
  t.not(agents.of({ caFile }), agents.of(withClient));
});

test('a certificate that is replaced is used by the next connection, and the earlier one while the files do not fit', async (t) => {
  const folder = await folderOf(t);
  const [server, first, second] = await Promise.all(
    ['server', 'first', 'second'].map((name) => makeCertificate(folder, name)),
  );
  if (server === undefined || first === undefined || second === undefined) throw new Error('no certificates');
  const url = await serve(t, server, [first, second]);
  const files = { caFile: server.certFile, clientCertFile: join(folder, 'cert'), clientKeyFile: join(folder, 'key') };
  await copyFile(first.certFile, files.clientCertFile);
  await copyFile(first.keyFile, files.clientKeyFile);
  const reported: unknown[] = [];
  const agents = createBackendAgents({
    connectMs: () => 20_000,
    onUnreadable: (of, error) => reported.push([of, (error as Error).message]),
  });
  t.teardown(() => agents[Symbol.asyncDispose]());
  const ask = async () => {
    const { body } = await agents.of(files).request({ origin: url, path: '/', method: 'GET' });
    return body.text();
  };
  t.is(await ask(), 'first');
  await copyFile(second.certFile, files.clientCertFile);
  for (let call = 0; call < 3; call++) t.is(await ask(), 'first', 'its key is not there yet');
  t.deepEqual(reported, [[files, 'has no certificate in PEM that fits its key']], 'once, without a word of the files');
  await copyFile(second.keyFile, files.clientKeyFile);
  t.is(await ask(), 'second');
  await rm(files.clientKeyFile);
  for (let call = 0; call < 3; call++) t.is(await ask(), 'second');
  t.is(reported.length, 2, 'once more, because it could be used in between');
});

test('certificates that cannot be used are issues, without a word of the files', async (t) => {
  const folder = await folderOf(t);
  const [one, other] = await Promise.all(['one', 'other'].map((name) => makeCertificate(folder, name)));
  if (one === undefined || other === undefined) throw new Error('no certificates');
  const text = join(folder, 'text');
  await writeFile(text, 'secret words\n');
  const common = { url: 'https://a/v1', location: 'on-prem' as const };
  const issues = fileIssuesOf({
    backends: {
      good: { ...common, caFile: one.certFile, clientCertFile: one.certFile, clientKeyFile: one.keyFile },
      mixed: { ...common, clientCertFile: one.certFile, clientKeyFile: other.keyFile },
      text: { ...common, caFile: text, clientCertFile: text, clientKeyFile: one.keyFile },
      folder: { ...common, caFile: folder },
      keyless: { ...common, clientCertFile: one.certFile, clientKeyFile: join(folder, 'none') },
    },
  });
  t.deepEqual(issues, [
    {
      path: 'backends.mixed.client_cert_file',
      message: `${one.certFile}: has no certificate in PEM that fits its key`,
    },
    { path: 'backends.text.ca_file', message: `${text}: has no certificate in PEM` },
    { path: 'backends.text.client_cert_file', message: `${text}: has no certificate in PEM that fits its key` },
    { path: 'backends.folder.ca_file', message: `${folder}: is not a regular file` },
    { path: 'backends.keyless.client_key_file', message: `${join(folder, 'none')}: cannot be read (ENOENT)` },
  ]);
});
