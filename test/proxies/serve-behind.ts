import { execFile, spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { copyFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Agent } from 'undici';
import { oneBackend } from '../stack/plan.ts';
import { type RunningIngress, startStack } from '../stack/stack.ts';
import { makeCertificate } from '../support/certificates.ts';
import { unlimitedKey } from '../support/load.ts';
import { type ProxyName, type ProxySetup, proxies } from './proxies.ts';

/** The service behind a proxy, in a network and with names of its own: see in-namespace.ts. */

const run = promisify(execFile);

/** The addresses of the two ingresses, which listen on the same ports; of the proxy; and of clients and the name server. */
const addresses = ['10.0.0.11', '10.0.0.12'] as const;
const proxyAddress = '10.0.0.2';
const ownAddress = '10.0.0.1';
const publicName = 'api.example.com';
const root = fileURLToPath(new URL('../../', import.meta.url));

export type ServedProxy = Awaited<ReturnType<typeof serveBehind>>;

/**
 * Starts the stack with two ingresses, and this proxy in front from its file, unchanged. `folder` is where files may be written. The names
 * of the files are found because `/etc/hosts` and `/etc/resolv.conf` are other files here.
 */
export async function serveBehind(name: ProxyName, folder: string) {
  await using parts = new AsyncDisposableStack();
  await connectProxy();
  const ingressHosts = addresses.map((address, index) => `${address} ingress-${index + 1}`);
  const hosts = ['127.0.0.1 localhost', `${proxyAddress} ${publicName}`, ...ingressHosts];
  await replaceFile('/etc/hosts', join(folder, 'hosts'), hosts);
  await replaceFile('/etc/resolv.conf', join(folder, 'resolv.conf'), [`nameserver ${ownAddress}`]);
  parts.use(await answerNames());
  const certificate = await placeCertificate(folder);

  const stack = parts.use(
    await startStack({ models: oneBackend, ingresses: 0, modelServers: { firstTokenMs: 30, tokensPerSecond: 100 } }),
  );
  /** With all of its defaults that matter here, also the delay of a shutdown. */
  const startIngress = async (address: string): Promise<RunningIngress> => {
    const own = { HOST: address, PORT: '8080', OPS_HOST: address, OPS_PORT: '8081', TRUST_PROXY: '1' };
    const allowed = 'ingress,ingress-1,ingress-2';
    await stack.startIngress({ ...own, OPS_HOSTS_ALLOWED: allowed, SHUTDOWN_DELAY_MS: '' });
    const started = stack.ingresses.pop();
    if (started === undefined) throw new Error('it has just started');
    return { ...started, url: `http://${address}:8080`, operationsUrl: `http://${address}:8081` };
  };
  const running = new Map<string, RunningIngress>();
  for (const address of addresses) running.set(address, await startIngress(address));
  stack.ingresses.push(...running.values());
  const key = await unlimitedKey(stack);

  const { command, file, url, waitsForRequests }: ProxySetup = proxies[name];
  const proxy = spawn('ip', ['netns', 'exec', 'proxy', ...command(join(root, file), folder)], {
    cwd: folder,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  parts.defer(async () => {
    proxy.kill('SIGKILL');
    if (proxy.exitCode === null && proxy.signalCode === null) await once(proxy, 'exit');
  });
  const connections = { ca: certificate, allowPartialTrustChain: true };
  const dispatcher = new Agent({ connect: connections, allowH2: false, bodyTimeout: 0, headersTimeout: 0 });
  parts.defer(() => dispatcher.destroy());
  await untilServed(url, dispatcher);

  const owned = parts.move();
  return {
    ...{ stack, key, url, dispatcher, certificate },
    direct: `http://${addresses[0]}:8080`,
    ingresses: () => [...running.values()],
    /** Stops an ingress as an orchestrator does, waits for its end, and starts it again. */
    async restart(index: number): Promise<void> {
      const address = addresses[index % addresses.length] ?? '';
      const ingress = running.get(address);
      ingress?.process.kill('SIGTERM');
      const code = await ingress?.process.exited;
      if (code !== 0) throw new Error(`an ingress ended with ${code}`);
      const started = await startIngress(address);
      running.set(address, started);
      if (waitsForRequests) await untilUsed(started);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Until the proxy sends it requests. */
async function untilUsed({ operationsUrl }: RunningIngress): Promise<void> {
  const countsOne = /^svc_inference_requests_total\{.*\} [1-9]/m;
  for (const endsAt = performance.now() + 30_000; performance.now() < endsAt; await sleep(100))
    if (countsOne.test(await (await fetch(`${operationsUrl}/metrics`)).text())) return;
  throw new Error('the proxy sends no requests to an ingress that was restarted');
}

/** A network of its own for the proxy, which may listen on the ports of the ingresses, and a cable between it and this one. */
async function connectProxy(): Promise<void> {
  await run('mount', ['-t', 'tmpfs', 'tmpfs', '/run']); // where `ip` keeps the names of networks
  const commands = [
    ['link', 'set', 'lo', 'up'],
    ['netns', 'add', 'proxy'],
    ['link', 'add', 'here', 'type', 'veth', 'peer', 'name', 'there', 'netns', 'proxy'],
    ...[ownAddress, ...addresses].map((address) => ['address', 'add', `${address}/24`, 'dev', 'here']),
    ['link', 'set', 'here', 'up'],
    ['-n', 'proxy', 'address', 'add', `${proxyAddress}/24`, 'dev', 'there'],
    ['-n', 'proxy', 'link', 'set', 'there', 'up'],
    ['-n', 'proxy', 'link', 'set', 'lo', 'up'],
  ];
  for (const command of commands) await run('ip', command);
}

/** Only for the processes of this mount namespace. */
async function replaceFile(path: string, own: string, lines: readonly string[]): Promise<void> {
  await writeFile(own, `${lines.join('\n')}\n`);
  await run('mount', ['--bind', own, path]);
}

/** Answers each question for a name with the addresses of both ingresses (RFC 1035 4.1). */
async function answerNames(): Promise<AsyncDisposable> {
  const socket = createSocket('udp4');
  socket.on('message', (question, { port, address }) => {
    const end = question.indexOf(0, 12) + 5;
    const isIpv4 = question.readUInt16BE(end - 4) === 1;
    const header = Buffer.from(question.subarray(0, 12));
    header.writeUInt16BE(0x81_80, 2);
    header.writeUInt16BE(isIpv4 ? addresses.length : 0, 6);
    header.writeUInt32BE(0, 8);
    const answers = addresses.map((host) =>
      Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, ...host.split('.').map(Number)]),
    );
    socket.send(Buffer.concat([header, question.subarray(12, end), ...(isIpv4 ? answers : [])]), port, address);
  });
  socket.bind(53, ownAddress);
  await once(socket, 'listening');
  return {
    async [Symbol.asyncDispose]() {
      socket.close();
    },
  };
}

/** At the paths that the files name. Only this mount namespace has them. */
async function placeCertificate(folder: string): Promise<string> {
  const { certFile, keyFile, cert } = await makeCertificate(folder, publicName, `DNS:${publicName}`);
  await run('mount', ['-t', 'tmpfs', 'tmpfs', '/etc/ssl']);
  await copyFile(certFile, `/etc/ssl/${publicName}.pem`);
  await copyFile(keyFile, `/etc/ssl/${publicName}.key`);
  return cert;
}

async function untilServed(url: string, dispatcher: Agent): Promise<void> {
  const { host } = new URL(url);
  for (let attempt = 0; attempt < 300; attempt++) {
    const answer = await dispatcher.request({ origin: url, path: '/healthz', method: 'GET' }).catch(() => undefined);
    await answer?.body.dump();
    if (answer !== undefined && answer.statusCode < 500) return;
    await sleep(100);
  }
  throw new Error(`nothing is served at ${host}`);
}
