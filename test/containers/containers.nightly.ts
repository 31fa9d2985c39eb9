import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test, { type ExecutionContext } from 'ava';
import { freePort } from '../stack/free-port.ts';
import { startLoad } from '../support/load.ts';
import { skipTest } from '../support/skip-test.ts';
import { type Docker, startDocker } from './start-docker.ts';

// docker-compose.yml as it is, on a Docker engine, by the documented commands. Its base images are not the official ones, but Debian's programs,
// and instead of MongoDB there is a server that speaks its protocol: so neither the command nor the check of `mongodb` is run.

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const composeFile = await readFile(join(root, 'docker-compose.yml'), 'utf8');
const images = [...composeFile.matchAll(/(?:image:|FROM) (\S+:\S+)/g)].map(([, image = '']) => image);
const docker = await startDocker([...new Set(images)]).catch((error: Error) => error);

if (docker instanceof Error) skipTest(test, { title: 'docker-compose.yml on an engine', reason: docker.message });
else declareTests(docker);

function declareTests(docker: Docker): void {
  let folder = '';
  let url = '';
  let key = '';

  /** Runs a command in a folder that has what an operator has. */
  async function shell(command: string): Promise<string> {
    const env = {
      ...docker.env,
      COMPOSE_FILE: 'docker-compose.yml:test/containers/override.yaml',
      COMPOSE_PROFILES: 'stand-ins',
    };
    const { stdout } = await run('bash', ['-c', command], { cwd: folder, env, maxBuffer: 2 ** 26 });
    return stdout;
  }

  test.before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'compose-'));
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    const parts = ['docker-compose.yml', '.dockerignore', 'package.json', 'package-lock.json', 'ingress', 'workers'];
    for (const part of [...parts, 'shared', 'test/stack', 'test/containers/override.yaml'])
      await cp(join(root, part), join(folder, part), { recursive: true, verbatimSymlinks: true });
    const [, secrets = ''] = /^# +(for NAME in .* > \.env)$/m.exec(composeFile) ?? [];
    await shell(secrets);
    await shell(`printf 'AUTH_URL=http://identity.localhost:8083\nBASE_URL=${url}\nPORT=${port}\n' >> .env`);
    await writeFile(join(folder, 'service.env'), "CLOUD_API_KEY='key-of-$a-backend'\n");
    const plans = await readFile(join(folder, 'test/stack/container-plans/plans.yaml'), 'utf8');
    await mkdir(join(folder, 'plans'));
    await writeFile(join(folder, 'plans/plans.yaml'), withoutLimits(plans));
  });

  test.after.always(async () => {
    await shell('docker compose down --volumes').catch(() => {}); // its networks would be left on this machine
    await docker[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  const declare = (title: string, implementation: (t: ExecutionContext) => Promise<void>) =>
    test.serial(title, async (t) => {
      t.timeout(900_000);
      await implementation(t);
    });

  declare('a folder of plans that has a .env is refused, and the reason is said', async (t) => {
    await shell('docker compose build');
    await cp(join(folder, '.env'), join(folder, 'plans/.env'));
    for (const name of ['ingress', 'worker']) {
      const error = await t.throwsAsync(shell(`docker compose run --rm --no-deps ${name}`), undefined, name);
      t.true(String(error?.message).includes('PLAN_DIR is refused: it has a file .env.'), String(error?.message));
    }
    await rm(join(folder, 'plans/.env'));
  });

  declare('a missing secret and a missing folder of plans are named, and variables of .env are used', async (t) => {
    const missing = await t.throwsAsync(shell('docker compose --env-file /dev/null config'));
    t.regex(String(missing?.message), /required variable \w+ is missing a value: set it in \.env/);
    const noPlans = await t.throwsAsync(shell('PLAN_DIR=./nowhere docker compose run --rm --no-deps worker'));
    t.regex(String(noPlans?.message), /nowhere/);
    const variables = 'PORT=127.0.0.1:9000 TRUST_PROXY=2 STOP_GRACE_PERIOD=90s';
    const { services } = JSON.parse(await shell(`${variables} docker compose config --format json`));
    t.like(services.proxy.ports[0], { host_ip: '127.0.0.1', published: '9000', target: 8080 });
    t.like(services.ingress, { stop_grace_period: '1m30s' });
    t.like(services.ingress.environment, { TRUST_PROXY: '2', CLOUD_API_KEY: 'key-of-$$a-backend' });
    t.is(services.proxy.environment?.CLOUD_API_KEY, undefined);
  });

  declare('two ingresses and three workers start, and the first request is answered through the proxy', async (t) => {
    await shell('docker compose up --detach --wait --scale worker=3 --scale ingress=2');
    const token = (await shell('docker compose exec stand-ins node test/stack/print-token.ts alice')).trim();
    const answer = await post(`${url}/v1/keys/developer`, token, {});
    key = ((await answer.json()) as { key: string }).key;
    const chat = { model: 'small-chat', messages: [{ role: 'user', content: 'Hello' }] };
    const first = await post(`${url}/v1/chat/completions`, key, chat);
    t.regex(await first.text(), /You said: Hello/);

    t.regex(await shell('docker compose exec worker sh -c \'echo "$CLOUD_API_KEY"\''), /^key-of-\$a-backend$/m);
    const [, documented = ''] = /^# +(docker compose exec ingress .*)$/m.exec(composeFile) ?? [];
    for (const index of [1, 2]) {
      const ready = await shell(documented.replace('exec', `exec --index ${index}`));
      t.like(JSON.parse(ready), { ready: true });
    }
    t.log((await shell('docker compose exec proxy haproxy -v')).split('\n')[0]);
    const published = await shell("docker ps --format '{{.Names}} {{.Ports}}'");
    t.deepEqual([...published.matchAll(/^(\S+) .*->/gm)].map(([, name]) => name).toSorted(), [
      'inference-proxy-1',
      'inference-stand-ins-1',
    ]);
  });

  declare('both ingresses get requests, and the refusal of a body that is too large reaches the client', async (t) => {
    await Promise.all(Array.from({ length: 40 }, () => fetch(`${url}/v1/models`, { headers: bearer(key) })));
    for (const index of [1, 2]) {
      const metrics = await shell(
        `docker compose exec --index ${index} ingress node -e 'fetch("http://localhost:8081/metrics").then((got) => got.text()).then(console.log)'`,
      );
      t.regex(metrics, /^svc_http_requests_total\{.*\/v1\/models.*\} [1-9]/m);
    }
    const large = await post(`${url}/v1/chat/completions`, key, { model: 'small-chat', user: 'a'.repeat(20_000_000) });
    t.is(large.status, 413);
    t.regex(await large.text(), /PAYLOAD_TOO_LARGE/);
  });

  declare('one network has at most 2,000 connections, of the 8,000 of the proxy', async (t) => {
    const sockets = Array.from({ length: 2_100 }, () => connect(Number(new URL(url).port), '127.0.0.1'));
    const open = new Set(sockets);
    for (const socket of sockets) socket.on('error', () => {}).on('close', () => open.delete(socket));
    await until(() => open.size <= 2_000);
    t.true(open.size > 1_900, `${open.size}`);
    for (const socket of sockets) socket.destroy();
    await until(async () => (await fetch(`${url}/readyz`).catch(() => ({ ok: false }))).ok);
  });

  declare('a plan file that replaces the old one is in force within seconds', async (t) => {
    const old = await readFile(join(folder, 'plans/plans.yaml'), 'utf8');
    await writeFile(join(folder, 'plans.new.yaml'), old.replace('  small-embed:', '  other-embed:'));
    await rename(join(folder, 'plans.new.yaml'), join(folder, 'plans/plans.yaml'));
    await until(async () =>
      (await (await fetch(`${url}/v1/models`, { headers: bearer(key) })).text()).includes('other-embed'),
    );
    t.pass();
  });

  declare('an update by the documented commands fails no request', async (t) => {
    const page = await readFile(join(root, 'ingress/documentation/upgrading.md'), 'utf8');
    const [, commands = ''] = /^```sh manifest\n(docker compose build\n.*?)```/ms.exec(page) ?? [];
    t.regex(commands, /--scale ingress=4 --scale worker=6 .*--scale ingress=2 --scale worker=3 /s);
    const before = await namesOf(shell);
    await writeFile(join(folder, 'ingress/release.ts'), '// of another release\n');
    const load = startLoad(t, { url: () => url, keys: [key], name: 'update', clients: 16, keepsConnections: true });
    await shell(`set -e\n${commands}`);
    const endings = await load.stop();
    t.true(endings.length > 200, `${endings.length} requests`);
    t.deepEqual(
      endings.filter(({ kind }) => kind !== 'answered'),
      [],
    );
    const after = await namesOf(shell);
    t.is(after.length, 5);
    t.deepEqual(
      after.filter((name) => before.includes(name)),
      [],
    );
    t.log(`${endings.length} requests during the update`);
  });

  declare('a changed haproxy.cfg is loaded by the documented command, and no request fails', async (t) => {
    const page = await readFile(join(root, 'ingress/documentation/upgrading.md'), 'utf8');
    const [, command = ''] = /`(docker compose kill [^`]+ proxy)`/.exec(page) ?? [];
    const file = join(folder, 'ingress/deployment/proxies/haproxy.cfg');
    const old = await readFile(file, 'utf8');
    const load = startLoad(t, { url: () => url, keys: [key], name: 'reload' });
    await until(() => load.endings.length > 20);
    await rm(file);
    await writeFile(file, old.replace('monitor-uri /readyz', 'monitor-uri /changed'));
    await shell(command);
    await until(() => isReadyAt(`${url}/changed`));
    await writeFile(file, old);
    await shell(command);
    await until(() => isReadyAt(`${url}/readyz`));
    t.deepEqual(
      (await load.stop()).filter(({ kind }) => kind !== 'answered'),
      [],
    );
  });

  declare('a stop under load ends each request: answered, refused, or with an error in its stream', async (t) => {
    const load = startLoad(t, { url: () => url, keys: [key], name: 'stop', clients: 16, keepsConnections: true });
    const slow = 'fetch("http://localhost:8086/control", { method: "PUT", body: JSON.stringify({ chunkMs: 5000 }) })';
    await shell(`docker compose exec stand-ins node -e '${slow}'`);
    const long = Array.from({ length: 4 }, () => readStream(url, key, 'slow-chat'));
    await until(() => load.endings.length > 50);
    const begunMs = performance.now();
    await shell('docker compose stop');
    const seconds = (performance.now() - begunMs) / 1_000;
    const endings = await load.stop();
    const ended = await shell(
      "docker inspect --format '{{.Name}} {{.State.ExitCode}} {{.State.FinishedAt}}' $(docker ps --all --quiet)",
    );
    t.notRegex(ended, / 137 /, 'no container was killed');
    t.deepEqual(
      endings.filter(({ kind }) => kind === 'wrong' || kind === 'broken off'),
      [],
    );
    for (const text of await Promise.all(long))
      t.regex(text.slice(-500), /^data: .*"error":/m, 'longer than the grace period');
    const kinds = [...Map.groupBy(endings, ({ kind }) => kind)].map(([kind, some]) => `${some.length} ${kind}`);
    t.log(`${kinds.join(', ')}; stopped within ${Math.round(seconds)} s`);
  });

  declare('after down and up, accounts have their keys and their usage', async (t) => {
    await shell('docker compose down');
    await shell('docker compose up --detach --wait --scale worker=3 --scale ingress=2');
    const usage = await fetch(`${url}/billing/usage`, { headers: bearer(key) });
    t.regex(await usage.text(), /"day"/);
    const chat = { model: 'small-chat', messages: [{ role: 'user', content: 'Again' }] };
    t.is((await post(`${url}/v1/chat/completions`, key, chat)).status, 200);
  });
}

/** The plan of new accounts has no limits, a backend has a key, and a model is called there only. */
function withoutLimits(plans: string): string {
  return plans
    .replace(/^ {2}free: .*$/m, '  free: { priority: 10, model_tiers: [guest, standard] }')
    .replace(
      'models:\n',
      'models:\n  slow-chat: { tier: guest, pool: default, backends: [cloud], output_tokens_max: 4096 }\n',
    )
    .replace(/(cloud: \{.*)\}/, '$1, api_key_env: CLOUD_API_KEY }');
}

const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` });

function post(url: string, secret: string, body: object): Promise<Response> {
  const headers = { ...bearer(secret), 'content-type': 'application/json' };
  return fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
}

async function readStream(url: string, key: string, model: string): Promise<string> {
  const messages = [{ role: 'user', content: 'Hello' }];
  return (await post(`${url}/v1/chat/completions`, key, { model, stream: true, messages })).text();
}

async function namesOf(shell: (command: string) => Promise<string>): Promise<string[]> {
  return (await shell("docker compose ps --format '{{.ID}}' ingress worker")).trim().split('\n');
}

/** Whether the proxy answers for itself at this address. A kept connection ends with the process that a reload replaces. */
function isReadyAt(address: string): Promise<boolean> {
  return fetch(address)
    .then(async (answer) => (await answer.text()).includes('Service ready'))
    .catch(() => false);
}

async function until(condition: () => boolean | Promise<boolean>, withinMs = 30_000): Promise<void> {
  for (const begunMs = performance.now(); !(await condition()); await sleep(100))
    if (performance.now() - begunMs > withinMs) throw new Error(`not within ${withinMs} ms`);
}
