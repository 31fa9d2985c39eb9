import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePort } from '../../stack/free-port.ts';
import { guardProcess } from '../../stack/guard-process.ts';
import { findProgram, installByApt } from '../../stack/install-by-apt.ts';
import { provideFolder } from '../../stack/python-environment.ts';

const run = promisify(execFile);
const version = '26.7.3';
const plugin = 'org.apache.maven.plugins:maven-dependency-plugin:2.8:unpack';
const root = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'inference-service-tests');
/** For 160 megabytes on a slow line. */
const fetchMs = 600_000;
/** On a busy machine; the first start also builds. */
const startWithinMs = 300_000;
const pollMs = 100;
const admin = { username: 'admin', password: 'admin' };

export interface Keycloak extends AsyncDisposable {
  /** Without a slash at its end. */
  url: string;
  /** Calls the admin API of a path below `/admin/realms`. Returns the body, or the id of what was created; undefined for neither. */
  call(method: string, path: string, body?: unknown): Promise<unknown>;
}

/** Java, Maven or Keycloak cannot be had. */
export class KeycloakMissing extends Error {
  override readonly name = 'KeycloakMissing';
}

/** Returns the folder of Keycloak, which Maven fetches once into the user's cache. Throws `KeycloakMissing`. */
export async function provideKeycloak(): Promise<string> {
  const found = await Promise.all(['java', 'mvn'].map(findProgram));
  if (found.includes(undefined)) {
    const advice = 'install Java 17 or later and Maven (Debian: apt-get install default-jre-headless maven)';
    const install = installByApt({ what: 'Java or Maven', packages: ['default-jre-headless', 'maven'], advice });
    await install.catch((cause: Error) => {
      throw new KeycloakMissing(cause.message, { cause });
    });
  }
  return provideFolder({ name: 'keycloak', content: [version], root }, async (making) => {
    const unpacked = `${making}.unpacked`;
    await mkdir(unpacked, { recursive: true });
    try {
      const artifact = `org.keycloak:keycloak-quarkus-dist:${version}:zip`;
      const flags = ['--batch-mode', '--quiet', `-Dartifact=${artifact}`, `-DoutputDirectory=${unpacked}`];
      await run('mvn', [plugin, ...flags], { timeout: fetchMs, cwd: unpacked }).catch((cause: unknown) => {
        throw new KeycloakMissing(`Maven could not fetch Keycloak ${version}`, { cause });
      });
      await rename(join(unpacked, `keycloak-${version}`), making);
    } finally {
      await rm(unpacked, { recursive: true, force: true });
    }
    await using _first = await startKeycloak(making); // builds, which later starts then need not
  });
}

/** Starts Keycloak in its development mode, with a database in memory. It ends with this process, even if that is killed. */
export async function startKeycloak(home: string): Promise<Keycloak> {
  const [port, managementPort] = [await freePort(), await freePort()];
  const url = `http://127.0.0.1:${port}`;
  const flags = ['--db=dev-mem', '--cache=local', '--http-host=127.0.0.1', `--http-port=${port}`];
  const child = spawn(join(home, 'bin/kc.sh'), ['start-dev', ...flags, `--http-management-port=${managementPort}`], {
    env: {
      ...{ PATH: process.env.PATH, HOME: process.env.HOME, JAVA_OPTS_APPEND: '-Xmx512m' },
      ...{ KC_BOOTSTRAP_ADMIN_USERNAME: admin.username, KC_BOOTSTRAP_ADMIN_PASSWORD: admin.password },
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true, // a group of its own: the script runs Java as its child
  });
  guardProcess(child, 'kill -KILL "-$1"');
  let log = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (bytes: Buffer) => {
      log = (log + bytes.toString()).slice(-20_000);
    });
  }
  const ended = once(child, 'exit');
  const stop = async () => {
    killGroup(child);
    await ended;
  };
  const isUp = () =>
    fetch(`${url}/realms/master`).then(
      ({ ok }) => ok,
      () => false,
    );
  for (const giveUpAt = Date.now() + startWithinMs; !(await isUp()); await sleep(pollMs)) {
    if (child.exitCode === null && Date.now() < giveUpAt) continue;
    await stop();
    throw new Error(`Keycloak did not start: ${log.slice(-2_000)}`);
  }
  return { url, call: adminCalls(url), [Symbol.asyncDispose]: stop };
}

/** Nothing that it would store at an orderly end is needed. */
function killGroup({ pid, exitCode, signalCode }: ChildProcess): void {
  if (pid !== undefined && exitCode === null && signalCode === null) process.kill(-pid, 'SIGKILL');
}

function adminCalls(url: string): Keycloak['call'] {
  /** It lives for a minute only. */
  async function token(): Promise<string> {
    const body = new URLSearchParams({ grant_type: 'password', client_id: 'admin-cli', ...admin });
    const answer = await fetch(`${url}/realms/master/protocol/openid-connect/token`, { method: 'POST', body });
    return ((await answer.json()) as { access_token: string }).access_token; // Keycloak's own
  }
  return async (method, path, body) => {
    const answer = await fetch(`${url}/admin/realms${path}`, {
      method,
      headers: { authorization: `Bearer ${await token()}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`Keycloak answered ${answer.status} to ${method} ${path}: ${text}`);
    return text === '' ? answer.headers.get('location')?.split('/').at(-1) : JSON.parse(text);
  };
}
