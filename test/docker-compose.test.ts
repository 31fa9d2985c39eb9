import { readFileSync } from 'node:fs';
import test from 'ava';
import { parse } from 'yaml';
import { z } from 'zod';
import { emptyIsSet, settingNames } from '../shared/process/settings.ts';

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
  healthcheck: z.looseObject({ test: texts }),
});
const fileSchema = z.looseObject({
  services: z.record(z.string(), serviceSchema),
  networks: z.record(z.string(), z.unknown()),
  configs: z.record(z.string(), z.strictObject({ file: z.string() })),
});

const text = readFileSync(new URL('../docker-compose.yml', import.meta.url), 'utf8');
const read = () => fileSchema.parse(parse(text, { merge: true }));
type Service = z.infer<typeof serviceSchema>;

const networksOf = ({ networks }: Service) => (Array.isArray(networks) ? networks : Object.keys(networks));
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

test('a setting whose empty value is one of its own is passed only if it is set', (t) => {
  const { services } = read();
  for (const name of emptyIsSet)
    t.is(services.ingress?.environment[name], null, 'Compose would pass one with a default as empty');
});

test('only the API is open to other machines', (t) => {
  const ports = Object.values(read().services).flatMap((service) => service.ports);
  t.deepEqual(
    ports.filter((port) => !port.startsWith('127.0.0.1:')),
    // biome-ignore lint/suspicious/noTemplateCurlyInString: Compose substitutes it
    ['${PORT:-8080}:8080'],
  );
});

test('the operator sets the issuer and the plans: without the profile there are no stand-ins', (t) => {
  const { services, configs } = read();
  t.regex(String(services.ingress?.environment.AUTH_URL), required('AUTH_URL'));
  t.regex(configs.plans?.file ?? '', required('PLAN_FILE'));
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

/** OpenTelemetry's packages read these themselves. */
const ofOpenTelemetry = [
  ...['OTEL_EXPORTER_OTLP_HEADERS', 'OTEL_EXPORTER_OTLP_TIMEOUT', 'OTEL_EXPORTER_OTLP_COMPRESSION'],
  ...['OTEL_SERVICE_NAME', 'OTEL_RESOURCE_ATTRIBUTES'],
];

test('settings whose empty value differs from none reach the containers as they are', (t) => {
  const environment = read().services.ingress?.environment ?? {};
  for (const name of emptyIsSet) t.is(environment[name], null, name);
});

test('containers get only existing settings, and have a health check', (t) => {
  const { services } = read();
  for (const [name, known] of [
    ['ingress', settingNames.ingress],
    ['worker', settingNames.worker],
  ] as const) {
    const given = Object.keys(services[name]?.environment ?? {});
    t.deepEqual(
      given.filter((setting) => !known.includes(setting)),
      ofOpenTelemetry,
    );
    const tracing = known.filter((setting) => setting.startsWith('OTEL_') && setting !== 'OTEL_EXPORTER_OTLP_PROTOCOL');
    t.deepEqual(
      tracing.filter((setting) => !given.includes(setting)),
      [],
    );
  }
  for (const secret of ['KEY_PEPPER', 'GUEST_KEY_SECRET']) {
    t.regex(String(services.ingress?.environment[secret]), required(secret));
  }
});
