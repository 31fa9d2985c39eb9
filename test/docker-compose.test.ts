import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { runInNewContext } from 'node:vm';
import test from 'ava';
import { parse } from 'yaml';
import { z } from 'zod';
import { parsePlanFile } from '../shared/plan-file/plan-file.ts';
import { stopMsMax } from '../shared/process/run-process.ts';
import { settingDefaults, settingNames } from '../shared/process/settings.ts';

const texts = z.array(z.string());
const serviceSchema = z.looseObject({
  image: z.string().optional(),
  build: z.looseObject({ dockerfile_inline: z.string() }).optional(),
  read_only: z.literal(true),
  tmpfs: texts,
  cap_drop: texts,
  cap_add: z.never().optional(),
  privileged: z.never().optional(),
  security_opt: texts,
  user: z.string().regex(/^[a-z]+$/),
  mem_limit: z.string().regex(/^\d+[mg]$/),
  restart: z.literal('unless-stopped'),
  environment: z.record(z.string(), z.unknown()),
  networks: z.union([texts, z.record(z.string(), z.looseObject({ aliases: texts }))]),
  ports: texts.default([]),
  profiles: texts.optional(),
  command: texts,
  entrypoint: texts.default([]),
  depends_on: z.record(z.string(), z.strictObject({ condition: z.string() })).default({}),
  env_file: z.array(z.strictObject({ path: z.string(), required: z.literal(false) })).optional(),
  volumes: z.array(z.unknown()).default([]),
  logging: z.strictObject({ driver: z.literal('local') }),
  stop_grace_period: z.string(),
  healthcheck: z.looseObject({ test: texts }),
});
const fileSchema = z.looseObject({
  services: z.record(z.string(), serviceSchema),
  networks: z.record(z.string(), z.unknown()),
});

const text = readFileSync(new URL('../docker-compose.yml', import.meta.url), 'utf8');
const read = () => fileSchema.parse(parse(text, { merge: true }));
type Service = z.infer<typeof serviceSchema>;

const networksOf = ({ networks }: Service) => (Array.isArray(networks) ? networks : Object.keys(networks));
const settled = (service: Service | undefined) => Object.keys(service?.environment ?? {});
const required = (name: string) => new RegExp(`^\\$\\{${name}:\\?[^}]+\\}$`);

test('each service is confined: minimal write access, no capabilities, no root, a memory limit', (t) => {
  const { services } = read();
  for (const [name, service] of Object.entries(services)) {
    t.deepEqual(service.cap_drop, ['ALL'], name);
    t.deepEqual(service.security_opt, ['no-new-privileges:true'], name);
    t.not(service.user, 'root', name);
  }
  for (const name of ['ingress', 'worker']) t.is(services[name]?.mem_limit, '512m');
});

test('each image has one full version', (t) => {
  for (const [name, { image, build }] of Object.entries(read().services)) {
    const images = image === undefined ? [] : [image];
    const bases = [...(build?.dockerfile_inline.matchAll(/^FROM (\S+)/gm) ?? [])].map(([, base = '']) => base);
    t.is(images.length + bases.length, 1, name);
    for (const one of [...images, ...bases]) t.regex(one, /^[a-z]+:\d+\.\d+\.\d+(-[a-z-]+)?$/, name);
  }
});

test('the image of ingresses and workers has the memory settings of the measured attacks', (t) => {
  const attack = readFileSync(new URL('attacks/run-attack.ts', import.meta.url), 'utf8');
  for (const name of ['ingress', 'worker']) {
    const dockerfile = read().services[name]?.build?.dockerfile_inline ?? '';
    const settings = [...dockerfile.matchAll(/\b(MALLOC_\w+|NODE_OPTIONS)=(\S+)/g)];
    t.is(settings.length, 3);
    for (const [, variable, value] of settings) t.true(attack.includes(`${variable}: '${value}`), variable);
  }
});

test('only ingresses and workers reach Redis and MongoDB, and only with a password', (t) => {
  const { services, networks } = read();
  t.deepEqual(networks.data, { internal: true });
  const onData = Object.entries(services).filter(([, service]) => networksOf(service).includes('data'));
  t.deepEqual(onData.map(([name]) => name).sort(), ['ingress', 'mongodb', 'redis', 'worker']);
  for (const name of ['redis', 'mongodb']) {
    const service = services[name];
    t.deepEqual(service && networksOf(service), ['data']);
    t.deepEqual(service?.ports, []);
  }
  t.regex(String(services.redis?.environment.REDISCLI_AUTH), required('REDIS_PASSWORD'));
  t.regex(String(services.mongodb?.environment.MONGODB_PASSWORD), required('MONGODB_PASSWORD'));
  t.regex(services.mongodb?.command.join(' ') ?? '', /--keyFile /);
  for (const name of ['ingress', 'worker']) {
    t.regex(String(services[name]?.environment.REDIS_URL), /^redis:\/\/service:\$\{REDIS_PASSWORD:\?[^}]+\}@redis:/);
    t.regex(String(services[name]?.environment.DATABASE_URL), /^mongodb:\/\/inference:\$\{MONGODB_PASSWORD:\?[^}]+\}@/);
  }
});

test('the user of the service has exactly the documented rights in Redis, and there is no other user', (t) => {
  const page = readFileSync(new URL('../ingress/documentation/redis.md', import.meta.url), 'utf8');
  const [, documented = ''] = /^redis-cli ACL SETUSER service on '>PASSWORD' ([^`]+)```/m.exec(page) ?? [];
  const rights = documented.replaceAll(/['\\]/g, '').trim().split(/\s+/).join(' ');
  t.regex(rights, /^~svc:\* resetchannels -@all \+ping /);
  const users = read()
    .services.redis?.command.at(-1)
    ?.match(/^user .*/gm);
  t.deepEqual(users, ['user default off', `user service on >$$REDISCLI_AUTH ${rights}`]);
});

test('no secret is in a command or a health check, or has a default', (t) => {
  for (const [name, { command, healthcheck }] of Object.entries(read().services)) {
    t.notRegex([...command, ...healthcheck.test].join(' '), /\$\{/, `${name}: Compose would substitute it`);
  }
  t.notRegex(text, /\$\{\w*(PASSWORD|SECRET|PEPPER)\w*(?!\w|:\?|:-\})/);
});

test('only the API is open to other machines, at the proxy; ingresses and workers have no port, so that there can be several', (t) => {
  const { services } = read();
  // biome-ignore lint/suspicious/noTemplateCurlyInString: Compose substitutes it
  t.deepEqual(services.proxy?.ports, ['${PORT:-8080}:8080']);
  for (const [name, { ports, profiles }] of Object.entries(services)) {
    if (name !== 'proxy') t.true(ports.length === 0 || profiles !== undefined, name);
    if (name !== 'proxy') for (const port of ports) t.true(port.startsWith('127.0.0.1:'), port);
  }
});

test("the proxy is always there, has the page's file, and reaches ingresses by the port and the check that they have", (t) => {
  const { proxy, ingress } = read().services;
  t.is(proxy?.profiles, undefined);
  const folder = './ingress/deployment/proxies';
  t.deepEqual(proxy?.volumes, [`${folder}:/usr/local/etc/haproxy:ro`]);
  t.is(proxy?.command.at(-1), '/usr/local/etc/haproxy/haproxy.cfg');
  const file = readFileSync(new URL(`../${folder}/haproxy.cfg`, import.meta.url), 'utf8');
  t.is(Number(ingress?.environment.PORT), Number(/server-template ingress \d+ ingress:(\d+) /.exec(file)?.[1]));
  t.is(Number(ingress?.environment.OPS_PORT), Number(/check port (\d+)/.exec(file)?.[1]));
  t.is(ingress?.environment.HOST, '0.0.0.0');
  t.is(ingress?.environment.OPS_HOST, '0.0.0.0');
  // biome-ignore lint/suspicious/noTemplateCurlyInString: Compose substitutes it
  t.is(ingress?.environment.TRUST_PROXY, '${TRUST_PROXY:-1}');
  const seconds = (name: string) => Number(new RegExp(`^  timeout ${name} (\\d+)s`, 'm').exec(file)?.[1]);
  const plans = parsePlanFile(readFileSync(new URL('stack/container-plans/plans.yaml', import.meta.url), 'utf8'));
  if ('issues' in plans) return t.fail('the plan file of the stand-ins is invalid');
  const { requestMs } = plans.planFile.timeouts;
  t.true(1_000 * seconds('server') > requestMs);
});

test('each container has longer than an ingress takes to stop at most, unless the operator says otherwise', (t) => {
  const defaults = settingDefaults.ingress;
  const [delayMs, graceMs] = ['SHUTDOWN_DELAY_MS', 'SHUTDOWN_GRACE_MS'].map((name) => Number(defaults.get(name)));
  const stopMs = Number(delayMs) + Number(graceMs);
  const exitMs = stopMsMax({ shutdownDelayMs: Number(delayMs), shutdownGraceMs: Number(graceMs) });
  t.true(
    exitMs > stopMs && exitMs < stopMs + 10_000,
    'a process exits after its grace period, and before it is killed',
  );
  for (const [name, { stop_grace_period: period, environment }] of Object.entries(read().services)) {
    const [, seconds] = /^\$\{STOP_GRACE_PERIOD:-(\d+)s\}$/.exec(period) ?? [];
    t.true(1_000 * Number(seconds) >= stopMs + 10_000, name);
    for (const setting of ['SHUTDOWN_DELAY_MS', 'SHUTDOWN_GRACE_MS']) t.is(environment[setting], undefined, name);
  }
});

test('ingresses stop first, then workers and the proxy, then the databases', (t) => {
  const before = (name: string) => Object.keys(read().services[name]?.depends_on ?? {}).toSorted();
  t.deepEqual(before('ingress'), ['mongodb', 'proxy', 'redis', 'worker'], 'Compose stops what depends on others first');
  t.deepEqual(before('worker'), ['mongodb', 'redis']);
});

test('the folder of the plan file is mounted for reading only, so that a file that replaces it is seen', (t) => {
  for (const name of ['ingress', 'worker']) {
    const { volumes, environment } = read().services[name] ?? {};
    t.deepEqual(volumes, [
      {
        ...{ type: 'bind', target: '/etc/inference', read_only: true, bind: { create_host_path: false } },
        // biome-ignore lint/suspicious/noTemplateCurlyInString: Compose substitutes it
        source: '${PLAN_DIR:-./plans}',
      },
    ]);
    t.is(environment?.PLAN_FILE, '/etc/inference/plans.yaml');
  }
  t.regex(text, /others must be able to read/, 'the comment at the top says so');
});

test('a folder of plans that has a .env is refused before Node starts, and any other one starts the process', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'plans-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  for (const name of ['ingress', 'worker']) {
    const { entrypoint = [], command = [] } = read().services[name] ?? {};
    const [file = ''] = command;
    t.true(existsSync(new URL(`../${file}`, import.meta.url)));
    const [program = '', ...args] = [...entrypoint, ...command].map((text) =>
      text.replaceAll('$$', '$').replaceAll('/etc/inference', folder).replace('exec node', 'exec echo'),
    );
    t.is(execFileSync(program, args, { encoding: 'utf8' }).trim(), file);
    writeFileSync(join(folder, '.env'), '');
    const error = t.throws(() => execFileSync(program, args, { stdio: 'pipe' }));
    t.regex(String(error), /PLAN_DIR is refused: it has a file \.env\./);
    rmSync(join(folder, '.env'));
  }
});

test('checks start no Node, and those of ingresses and workers pass only if /readyz is 200', async (t) => {
  const { services } = read();
  for (const [name, { healthcheck }] of Object.entries(services)) {
    t.notRegex(healthcheck.test.join(' '), /node|mongosh/, name);
  }
  let status = 200;
  const server = createServer((_request, response) => response.writeHead(status).end('{}'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo; // a TCP server has such an address
  for (const name of ['ingress', 'worker']) {
    const { healthcheck, environment } = services[name] ?? {};
    t.is(Number(environment?.OPS_PORT), name === 'ingress' ? 8081 : 8082);
    const [, program = '', ...args] = (healthcheck?.test ?? []).map((text) => text.replaceAll('$$', '$'));
    const check = (OPS_PORT: number) =>
      promisify(execFile)(program, args, { env: { ...process.env, OPS_PORT: String(OPS_PORT) } });
    status = 200;
    await t.notThrowsAsync(check(port), name);
    status = 503;
    await t.throwsAsync(check(port), undefined, name);
    await t.throwsAsync(check(1), undefined, name);
  }
});

test('the image has only what it is made of: no secrets, no packages of this machine', (t) => {
  const lines = readFileSync(new URL('../.dockerignore', import.meta.url), 'utf8').split('\n');
  const rules = lines.filter((line) => line !== '' && !line.startsWith('#'));
  t.is(rules[0], '*');
  const copied = Object.values(read().services).flatMap(({ build }) =>
    [...(build?.dockerfile_inline.matchAll(/^COPY (.*) \S+$/gm) ?? [])].flatMap(([, from = '']) => from.split(' ')),
  );
  t.deepEqual(
    rules.filter((rule) => rule.startsWith('!') && rule !== '!test').toSorted(),
    [...new Set(copied)].map((path) => `!${path}`).toSorted(),
  );
  for (const excluded of ['**/.env', '**/.data', '**/node_modules']) t.true(rules.includes(excluded), excluded);
});

test('MongoDB 8.0 has the variable without which it crashes on new kernels', (t) => {
  t.is(read().services.mongodb?.environment.GLIBC_TUNABLES, 'glibc.pthread.rseq=1');
});

/** The command of MongoDB, with this folder in the place of `/tmp`. */
const mongoCommand = (folder: string) =>
  (read().services.mongodb?.command.join(' ') ?? '').replaceAll('$$', '$').replaceAll('/tmp/', `${folder}/`);

test('MongoDB is marked as ready when it has been prepared, which is tried until it succeeds', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'mongodb-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const program = (name: string, script: string) =>
    writeFileSync(join(folder, name), `#!/bin/bash\n${script}\n`, { mode: 0o755 });
  program('sleep', ''); // between two tries
  program(
    'mongosh',
    `[ "$*" = "--quiet --file ${folder}/prepare.js" ] && echo try >> ${folder}/tries && [ $(wc -l < ${folder}/tries) -eq 3 ]`,
  );
  program('mongod', `until [ -e ${folder}/ready ]; do /bin/sleep 0.02; done; echo "$@"`);
  const env = { ...process.env, PATH: `${folder}:${process.env.PATH}` };
  const { stdout } = await promisify(execFile)('bash', ['-ec', mongoCommand(folder)], { env, timeout: 30_000 });
  t.is(stdout.trim(), `--replSet rs0 --keyFile ${folder}/members.key --bind_ip_all`);
  t.is(readFileSync(join(folder, 'tries'), 'utf8'), 'try\n'.repeat(3));
  t.is(Buffer.from(readFileSync(join(folder, 'members.key'), 'utf8'), 'base64').length, 96);
});

test('preparing MongoDB creates the replica set and its user once, and fails while a password is wrong', (t) => {
  const [, script = ''] = /<<'PREPARE'\n(.*?)\nPREPARE\n/s.exec(mongoCommand('/tmp')) ?? [];
  const server = { initiated: 0, isPrimary: false, password: '' };
  function prepare(MONGODB_PASSWORD: string): number {
    let code = -1;
    const admin = {
      auth: ({ pwd }: { pwd: string }) => {
        if (pwd !== server.password) throw new Error('Authentication failed');
        return { ok: 1 };
      },
      createUser({ user, pwd, roles }: { user: string; pwd: string; roles: object[] }) {
        if (server.password !== '') throw new Error('requires authentication');
        t.deepEqual(
          { user, roles: [...roles] },
          { user: 'inference', roles: [{ role: 'readWrite', db: 'inference' }] },
        );
        server.password = pwd;
      },
    };
    const initiate = () => {
      if (server.initiated > 0) throw new Error('already initialized');
      server.initiated += 1;
    };
    const db = { getSiblingDB: () => admin, hello: () => ({ isWritablePrimary: server.isPrimary }) };
    const quit = (given: number) => {
      code = given;
    };
    try {
      runInNewContext(script, { db, rs: { initiate }, quit, process: { env: { MONGODB_PASSWORD } } });
    } catch {
      return 1; // as mongosh ends
    }
    return code;
  }
  t.is(prepare('secret'), 1, 'it is not primary yet');
  server.isPrimary = true;
  t.is(prepare('secret'), 0);
  t.deepEqual(server, { initiated: 1, isPrimary: true, password: 'secret' });
  t.is(prepare('secret'), 0, 'at the next start');
  t.is(prepare('another'), 1);
});

test('the operator sets the issuer and the plans: without the profile there are no stand-ins', (t) => {
  const { services } = read();
  t.regex(String(services.ingress?.environment.AUTH_URL), required('AUTH_URL'));
  const profiled = Object.entries(services).filter(([, { profiles }]) => profiles !== undefined);
  t.deepEqual(
    profiled.map(([name, { profiles }]) => [name, profiles]),
    [['stand-ins', ['stand-ins']]],
  );
});

test("the stand-ins' issuer has one address for browsers on the host and for containers", (t) => {
  const standIns = read().services['stand-ins'];
  const { protocol, hostname, port } = new URL(String(standIns?.environment.ISSUER));
  t.is(protocol, 'http:');
  t.true(hostname.endsWith('.localhost'), 'browsers resolve it to this machine');
  t.true(standIns?.ports.includes(`127.0.0.1:${port}:${port}`));
  const { networks } = standIns ?? {};
  t.true(
    !Array.isArray(networks) && networks?.front?.aliases.includes(hostname),
    'containers resolve it to the stand-ins',
  );
  t.true(text.includes(`AUTH_URL=${standIns?.environment.ISSUER}`), 'the comment at the top says so');
});

test('containers have only existing settings, and service.env can have all that are left, and keys of backends', (t) => {
  const { services } = read();
  for (const name of ['ingress', 'worker'] as const) {
    const service = services[name];
    t.deepEqual(service?.env_file, [{ path: 'service.env', required: false }]);
    t.deepEqual(
      settled(service).filter((setting) => !settingNames[name].includes(setting)),
      [],
    );
    // A variable wins over the file, also if it is empty.
    for (const value of Object.values(service?.environment ?? {})) t.notRegex(String(value), /:-\}|^null$|^$/);
  }
  for (const secret of ['KEY_PEPPER', 'GUEST_KEY_SECRET']) {
    t.regex(String(services.ingress?.environment[secret]), required(secret));
  }
  for (const [name, { env_file }] of Object.entries(services)) {
    if (name !== 'ingress' && name !== 'worker') t.is(env_file, undefined, name);
  }
});

test('the comment at the top names every variable of the file', (t) => {
  const head = text.slice(0, text.indexOf('\nname: '));
  const variables = new Set([...text.slice(head.length).matchAll(/(?<!\$)\$\{(\w+)/g)].map(([, name = '']) => name));
  t.deepEqual(
    [...variables].filter((name) => !new RegExp(`\\b${name}\\b`).test(head)),
    [],
  );
});
