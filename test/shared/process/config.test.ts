import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'ava';
import { poolsOf } from '../../../shared/plan-file/plan-file.ts';
import {
  ConfigError,
  readIngressConfig,
  readReconcileConfig,
  readWorkerConfig,
} from '../../../shared/process/config.ts';
import { planText } from '../../support/plan-text.ts';

const directory = mkdtempSync(join(tmpdir(), 'config-'));
const planFile = join(directory, 'plans.yaml');
writeFileSync(planFile, planText());
test.after.always(() => rmSync(directory, { recursive: true }));

const [secret, guestSecret] = ['s'.repeat(32), 'g'.repeat(32)];
const both = { REDIS_URL: 'redis://redis:6379', DATABASE_URL: 'sqlite:store.sqlite', PLAN_FILE: planFile };
const ingress = {
  ...both,
  BASE_URL: 'https://api.example.com',
  AUTH_URL: 'https://auth.example.com',
  KEY_PEPPER: secret,
  GUEST_KEY_SECRET: guestSecret,
};
const ofWorkers = { ...both, KEY_PEPPER: secret };
const worker = { ...ofWorkers, CLOUD_API_KEY: 'key of the cloud' };

function faultsOf(read: () => unknown): ConfigError['issues'] {
  try {
    read();
  } catch (error) {
    if (error instanceof ConfigError) return error.issues;
    throw error;
  }
  return [];
}

const named = (read: () => unknown) => faultsOf(read).map(({ path }) => path);

function planFileWith(text: string): string {
  const file = join(mkdtempSync(join(directory, 'plan-')), 'plans.yaml');
  writeFileSync(file, text);
  return file;
}

test('AUTH_URL has no user and password, which no request could send and which logs would show', (t) => {
  const AUTH_URL = 'https://me:secret@auth.example.com';
  const error = t.throws(() => readIngressConfig({ ...ingress, AUTH_URL }), { instanceOf: ConfigError });
  t.deepEqual(error.issues, [{ path: 'AUTH_URL', message: 'expected an address without user and password' }]);
});

test('DOCS_URL must be an address that page names can be appended to, and that is valid in a header', (t) => {
  const docsUrlOf = (DOCS_URL: string) => readIngressConfig({ ...ingress, DOCS_URL }).links.docsUrl;
  t.is(docsUrlOf('https://docs.example.com'), 'https://docs.example.com');
  t.is(docsUrlOf('https://docs.example.com/'), 'https://docs.example.com');
  t.is(docsUrlOf('https://example.com/help//'), 'https://example.com/help');
  t.is(docsUrlOf('https://exämple.com/hälp'), 'https://xn--exmple-cua.com/h%C3%A4lp');
  for (const end of ['?v=1', '?', '#top', '#']) {
    t.deepEqual(
      named(() => docsUrlOf(`https://docs.example.com/help${end}`)),
      ['DOCS_URL'],
      end,
    );
  }
  t.deepEqual(
    named(() => docsUrlOf('https://user@docs.example.com')),
    ['DOCS_URL'],
  );
  t.deepEqual(
    named(() => docsUrlOf('https://:password@docs.example.com')),
    ['DOCS_URL'],
  );
  t.deepEqual(
    named(() => docsUrlOf('nonsense')),
    ['DOCS_URL'],
  );
});

test('the name, the logo and the support address of the product are plain text and addresses that a page can have', (t) => {
  const productOf = (more: Record<string, string>) => readIngressConfig({ ...ingress, ...more }).product;
  t.deepEqual(
    productOf({
      PRODUCT_NAME: ' Łódź AI <β> ',
      PRODUCT_LOGO_URL: 'https://exämple.com/a logo.svg',
      SUPPORT_URL: 'mailto:ai@example.com',
    }),
    {
      name: 'Łódź AI <β>',
      logoUrl: 'https://xn--exmple-cua.com/a%20logo.svg',
      supportUrl: 'mailto:ai@example.com',
    },
  );
  t.is(productOf({ PRODUCT_LOGO_URL: 'http://localhost:9000/a.png' }).logoUrl, 'http://localhost:9000/a.png');
  t.is(productOf({ SUPPORT_URL: 'https://help.example.com' }).supportUrl, 'https://help.example.com/');
  const wrong: Record<string, readonly string[]> = {
    PRODUCT_NAME: [' ', 'x'.repeat(61), 'two\nlines', 'turned \u202e around', 'a\u0000b'],
    PRODUCT_LOGO_URL: [
      ...['nonsense', 'http://example.com/a.svg', 'data:image/svg+xml,x', 'https://me@example.com/a.svg'],
      ...[
        'https://*/a.svg',
        'https://a;b/a.svg',
        "https://a'b/a.svg",
        'https://a,b/',
        `https://a.b/${'x'.repeat(2_000)}`,
      ],
    ],
    SUPPORT_URL: ['javascript:alert(1)', 'http://example.com', 'help', 'https://me:secret@example.com'],
  };
  for (const [name, values] of Object.entries(wrong)) {
    for (const value of values)
      t.deepEqual(
        named(() => productOf({ [name]: value })),
        [name],
        value,
      );
  }
});

const tracingOff = { url: undefined, sampler: 'parentbased_always_on', samplerRatio: 1, genAi: false };

test('an ingress starts with the required settings only, all others have their defaults', (t) => {
  const { planFile: plan, ...config } = readIngressConfig(ingress);
  t.deepEqual(config, {
    listener: { host: '0.0.0.0', port: 8080, keepAliveMs: 65_000 },
    shutdownDelayMs: 10_000,
    connections: { connectionsMax: 10_000, perAddressMax: 2_000 },
    answerBudgetBytes: 100_663_296,
    bodyBudgetBytes: 134_217_728,
    bodyBytesMax: 16_777_216,
    operations: { host: '127.0.0.1', port: 8081, hostsAllowed: [] },
    trustedProxyHops: 0,
    authFailuresPerMinute: 300,
    settingsWritesPerMinute: 60,
    product: { name: 'Inference service', logoUrl: undefined, supportUrl: undefined },
    links: {
      baseUrl: 'https://api.example.com',
      consoleUrl: 'https://api.example.com/console',
      docsUrl: 'https://api.example.com/docs',
      topupUrl: 'https://api.example.com/console#top-up',
    },
    signIn: {
      issuer: 'https://auth.example.com',
      audiences: ['https://api.example.com'],
      clients: undefined,
      operators: [{ claim: 'scope', value: 'svc:admin' }],
      accountClaim: 'sub',
      nameClaim: undefined,
      acceptsUnmarked: false,
      tokenLifeMaxS: 86_400,
      consoleClientId: 'console',
      consoleScopes: 'openid svc:admin',
      consoleResource: 'https://api.example.com',
    },
    keyPeppers: [secret],
    guestKeySecrets: [guestSecret],
    queue: { depthMax: 2_000, bytesMax: 134_217_728, dashboardWritable: false },
    outboxLengthMax: undefined,
    webhooks: { secretKeys: undefined, hostsPrivate: [] },
    redisUrl: 'redis://redis:6379',
    replyRedisUrl: 'redis://redis:6379',
    databaseUrl: 'sqlite:store.sqlite',
    log: { level: 'info', format: 'json' },
    tracing: tracingOff,
    shutdownGraceMs: 30_000,
    warnings: [],
  });
  t.is(plan.initial.planFile.defaultPlan, 'free');
  t.is(plan.file, planFile);
});

test('a worker starts with the required settings only, all others have their defaults', (t) => {
  const { planFile: plan, variableOf, ...config } = readWorkerConfig(worker);
  t.deepEqual(config, {
    answerBudgetBytes: 100_663_296,
    pools: undefined,
    concurrency: 1_024,
    batchConcurrency: 16,
    bodyBytesMax: 16_777_216,
    outboxLengthMax: undefined,
    webhooks: { secretKeys: undefined, hostsPrivate: [] },
    keyPeppers: [secret],
    operations: { host: '127.0.0.1', port: 8082, hostsAllowed: [] },
    redisUrl: 'redis://redis:6379',
    replyRedisUrl: 'redis://redis:6379',
    databaseUrl: 'sqlite:store.sqlite',
    log: { level: 'info', format: 'json' },
    tracing: tracingOff,
    shutdownGraceMs: 30_000,
    warnings: [],
  });
  t.deepEqual(poolsOf(plan.initial.planFile), ['default']);
  t.is(variableOf('CLOUD_API_KEY'), 'key of the cloud');
  t.is(variableOf('OTHER_API_KEY'), undefined);
});

test('reconcile needs only the store, Redis and the plan file, and no API key', (t) => {
  t.deepEqual(readReconcileConfig({ ...both, REPLY_REDIS_URL: 'nonsense', PORT: 'x' }), {
    redisUrl: 'redis://redis:6379',
    databaseUrl: 'sqlite:store.sqlite',
    log: { level: 'info', format: 'json' },
    usageMonthsKept: 24,
  });
  t.deepEqual(named(() => readReconcileConfig({})).sort(), Object.keys(both).sort());
});

test('each side requires only its own settings, and one error names all missing ones', (t) => {
  t.deepEqual(named(() => readIngressConfig({})).sort(), Object.keys(ingress).sort());
  t.deepEqual(named(() => readWorkerConfig({})).sort(), Object.keys(ofWorkers).sort());
  t.deepEqual(
    named(() => readWorkerConfig({ ...worker, BASE_URL: 'nonsense', PORT: 'x' })),
    [],
  );
  t.deepEqual(
    named(() => readIngressConfig({ ...ingress, POOLS: 'nowhere', CONCURRENCY: 'x' })),
    [],
  );
  const message = t.throws(() => readWorkerConfig({}), { instanceOf: ConfigError }).message;
  for (const name of Object.keys(ofWorkers)) t.true(message.includes(`  ${name}: is required`), name);
});

test('an empty setting counts as not set', (t) => {
  t.is(readIngressConfig({ ...ingress, PORT: '', CONSOLE_URL: '' }).listener.port, 8080);
  t.deepEqual(
    faultsOf(() => readIngressConfig({ ...ingress, REDIS_URL: '' })),
    [{ path: 'REDIS_URL', message: 'is required' }],
  );
});

test('settings are parsed: lists, numbers, booleans and addresses', (t) => {
  const config = readIngressConfig({
    ...ingress,
    KEY_PEPPER: ` ${'a'.repeat(32)} ,${'b'.repeat(40)}`,
    PORT: '0',
    TRUST_PROXY: '2',
    QUEUES_WRITABLE: 'true',
    CONSOLE_URL: 'https://console.example.com',
    REPLY_REDIS_URL: 'rediss://replies:6380',
    AUTH_CLIENTS: 'console, cli',
    OPS_HOSTS_ALLOWED: 'ingress, ingress.prod.svc,10.1.2.3,::1',
  });
  t.deepEqual(config.keyPeppers, ['a'.repeat(32), 'b'.repeat(40)]);
  t.deepEqual(config.operations.hostsAllowed, ['ingress', 'ingress.prod.svc', '10.1.2.3', '::1']);
  t.deepEqual(config.signIn.clients, ['console', 'cli']);
  t.is(config.listener.port, 0);
  t.is(config.trustedProxyHops, 2);
  t.true(config.queue.dashboardWritable);
  t.is(config.links.topupUrl, 'https://console.example.com#top-up');
  t.is(config.replyRedisUrl, 'rediss://replies:6380');
  t.deepEqual(readWorkerConfig({ ...worker, POOLS: 'default, default' }).pools, ['default']);
});

test('tracing is on if it has an address, unless OpenTelemetry is disabled', (t) => {
  const tracing = (env: Record<string, string>) => readIngressConfig({ ...ingress, ...env }).tracing;
  const base = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };
  t.deepEqual(tracing(base), { ...tracingOff, url: 'http://collector:4318/v1/traces' });
  t.is(tracing({ OTEL_EXPORTER_OTLP_ENDPOINT: 'https://c/otlp/' }).url, 'https://c/otlp/v1/traces');
  t.is(tracing({ ...base, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://other/traces' }).url, 'http://other/traces');
  for (const OTEL_SDK_DISABLED of ['true', 'True', ' TRUE '])
    t.is(tracing({ ...base, OTEL_SDK_DISABLED }).url, undefined, OTEL_SDK_DISABLED);
  for (const OTEL_SDK_DISABLED of ['false', 'False', '0', 'yes'])
    t.is(tracing({ ...base, OTEL_SDK_DISABLED }).url, 'http://collector:4318/v1/traces', OTEL_SDK_DISABLED);
  t.is(tracing({ ...base, OTEL_TRACES_SAMPLER: 'Always_On' }).sampler, 'always_on');
  t.like(tracing({ ...base, OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.01' }), {
    sampler: 'traceidratio',
    samplerRatio: 0.01,
  });
  t.true(tracing({ ...base, OTEL_SEMCONV_STABILITY_OPT_IN: 'http, gen_ai_latest_experimental' }).genAi);
  t.deepEqual(readWorkerConfig({ ...worker, ...base }).tracing, tracing(base));
  const wrong = {
    OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4317',
    OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
    OTEL_TRACES_SAMPLER: 'jaeger_remote',
    OTEL_TRACES_SAMPLER_ARG: '1.5',
  };
  t.deepEqual(named(() => readIngressConfig({ ...ingress, ...wrong })).sort(), Object.keys(wrong).sort());
  t.deepEqual(
    tracing({ ...wrong, OTEL_SDK_DISABLED: 'True' }),
    tracingOff,
    'variables that are not used are not checked',
  );
  t.deepEqual(tracing({ ...wrong, OTEL_EXPORTER_OTLP_ENDPOINT: '' }), tracingOff);
});

test('settings of sign-in tokens say who is accepted and who is an operator', (t) => {
  const signInOf = (env: Record<string, string>) => readIngressConfig({ ...ingress, ...env }).signIn;
  t.like(signInOf({}), {
    audiences: ['https://api.example.com'],
    consoleResource: 'https://api.example.com',
    operators: [{ claim: 'scope', value: 'svc:admin' }],
    accountClaim: 'sub',
    nameClaim: undefined,
    acceptsUnmarked: false,
  });
  const operators = 'roles=Service Admins, urn:zitadel:iam:org:project:roles=svc:admin,groups=cn=ops';
  t.like(signInOf({ AUTH_AUDIENCE: 'api://a, b', AUTH_OPERATORS: operators, AUTH_UNMARKED_TOKENS: 'accept' }), {
    ...{ audiences: ['api://a', 'b'], consoleResource: 'api://a', acceptsUnmarked: true },
    operators: [
      { claim: 'roles', value: 'Service Admins' },
      { claim: 'urn:zitadel:iam:org:project:roles', value: 'svc:admin' },
      { claim: 'groups', value: 'cn=ops' },
    ],
  });
  for (const AUTH_ACCOUNT_CLAIM of ['sub', 'oid', 'user_id']) {
    t.is(signInOf({ AUTH_ACCOUNT_CLAIM }).accountClaim, AUTH_ACCOUNT_CLAIM);
  }
  t.is(signInOf({ AUTH_NAME_CLAIM: 'preferred_username' }).nameClaim, 'preferred_username');
  for (const AUTH_AUDIENCE of ['none', 'None', 'NONE']) {
    t.like(signInOf({ AUTH_AUDIENCE, AUTH_CLIENTS: 'a' }), { audiences: undefined, consoleResource: '' });
  }
  t.is(
    signInOf({ AUTH_AUDIENCE: 'guid', CONSOLE_RESOURCE: '' }).consoleResource,
    '',
    'an empty one is not the default',
  );
  t.is(signInOf({ CONSOLE_RESOURCE: 'api://a' }).consoleResource, 'api://a');
  t.is(signInOf({ CONSOLE_SCOPES: 'openid api://a/b' }).consoleScopes, 'openid api://a/b');
  t.is(signInOf({ CONSOLE_SCOPES: '' }).consoleScopes, 'openid svc:admin');
  const refused: [Record<string, string>, string][] = [
    [{ CONSOLE_RESOURCE: 'a b' }, 'CONSOLE_RESOURCE: expected the name of an audience'],
    [{ CONSOLE_SCOPES: 'openid  a' }, 'CONSOLE_SCOPES: expected scopes with one space between them'],
    [{ CONSOLE_SCOPES: 'openid,a' }, 'CONSOLE_SCOPES: expected openid among the scopes'],
    [{ CONSOLE_SCOPES: 'svc:admin' }, 'CONSOLE_SCOPES: expected openid among the scopes'],
    [{ AUTH_AUDIENCE: 'none' }, 'AUTH_CLIENTS: is required if AUTH_AUDIENCE is none'],
    [{ AUTH_AUDIENCE: 'None' }, 'AUTH_CLIENTS: is required if AUTH_AUDIENCE is none'],
    [{ AUTH_AUDIENCE: 'none,a', AUTH_CLIENTS: 'a' }, 'AUTH_AUDIENCE: expected none alone, or names of audiences'],
    [{ AUTH_AUDIENCE: 'a,' }, 'AUTH_AUDIENCE[1]: expected a name between commas'],
    ...['email', 'name', 'preferred_username', 'upn', 'ID', 'userid'].map((claim): [Record<string, string>, string] => [
      { AUTH_ACCOUNT_CLAIM: claim },
      'AUTH_ACCOUNT_CLAIM: expected sub, oid, or a name that ends in _id',
    ]),
    ...['client_id', 'app.client_id', 'https://example.com/client_id'].map(
      (claim): [Record<string, string>, string] => [
        { AUTH_ACCOUNT_CLAIM: claim },
        'AUTH_ACCOUNT_CLAIM: expected the id of a person: client_id is the same for all people of a client',
      ],
    ),
    [{ AUTH_NAME_CLAIM: 'a b' }, 'AUTH_NAME_CLAIM: expected the name of a claim'],
    ...['', 'roles', 'roles=', '=x', 'roles=a,'].map((rules): [Record<string, string>, string] => [
      { AUTH_OPERATORS: rules },
      `AUTH_OPERATORS[${rules.split(',').length - 1}]: expected claim=value between commas, such as roles=admin`,
    ]),
  ];
  for (const [env, fault] of refused) {
    const faults = faultsOf(() => signInOf(env)).map(({ path, message }) => `${path}: ${message}`);
    t.deepEqual(faults, [fault]);
  }
  t.deepEqual(
    named(() => signInOf({ AUTH_UNMARKED_TOKENS: 'yes' })),
    ['AUTH_UNMARKED_TOKENS'],
  );
});

test('every invalid setting is named, and no value is repeated', (t) => {
  const wrong = {
    PORT: '65536',
    OPS_PORT: '-1',
    OPS_HOSTS_ALLOWED: 'ingress:8081',
    BASE_URL: 'ftp://example.com',
    AUTH_URL: 'auth.example.com',
    AUTH_CLIENTS: 'console,',
    AUTH_TOKEN_LIFE_MAX_S: '0',
    REDIS_URL: 'http://user:hunter2@redis',
    DATABASE_URL: 'postgres://user:hunter2@db',
    KEY_PEPPER: `${secret},hunter2`,
    GUEST_KEY_SECRET: 'hunter2',
    TRUST_PROXY: 'all',
    AUTH_FAILURES_PER_MINUTE: '0',
    SETTINGS_WRITES_PER_MINUTE: '0',
    BODY_BYTES_MAX: '4e6',
    QUEUE_DEPTH_MAX: '1.5',
    QUEUES_WRITABLE: 'yes',
    LOG_LEVEL: 'loud',
    LOG_FORMAT: 'xml',
    SHUTDOWN_GRACE_MS: '86400001',
  };
  const faults = faultsOf(() => readIngressConfig({ ...ingress, ...wrong }));
  t.deepEqual(faults.map(({ path }) => path.replace(/\[\d+\]/, '')).sort(), Object.keys(wrong).sort());
  t.true(faults.some(({ path }) => path === 'KEY_PEPPER[1]'));
  t.false(JSON.stringify(faults).includes('hunter2'));
});

test('faults of settings, plan file and pools are reported together', (t) => {
  const file = planFileWith('plans: [');
  const broken = named(() => readIngressConfig({ ...ingress, PORT: 'x', PLAN_FILE: file }));
  t.true(broken.includes('PORT'));
  t.true(broken.includes(`${file}:1:9`));
  t.deepEqual(
    faultsOf(() => readWorkerConfig({ ...ofWorkers, CONCURRENCY: '0', POOLS: 'default, nowhere' })).map(
      ({ path, message }) => `${path}: ${message}`,
    ),
    ['CONCURRENCY: too small: expected number to be >=1', 'POOLS: no model belongs to the pool "nowhere"'],
  );
});

test('a fault of the plan file names the file, its place and its path', (t) => {
  const file = planFileWith(
    planText((plan) => {
      plan.default_plan = 'gold';
      plan.models['small-chat'].backends[1] = 'clowd';
    }),
  );
  t.deepEqual(
    faultsOf(() => readIngressConfig({ ...ingress, PLAN_FILE: file })),
    [
      { path: `${file}:1:1: default_plan`, message: 'there is no plan "gold"' },
      { path: `${file}:17:9: models.small-chat.backends[1]`, message: 'there is no backend "clowd"' },
    ],
  );
  const syntax = planFileWith('default_plan: free\nplans: {');
  const [fault] = faultsOf(() => readIngressConfig({ ...ingress, PLAN_FILE: syntax }));
  t.is(fault?.path, `${syntax}:2:9`);
  t.regex(fault?.message ?? '', /line 2/);
});

test('a plan file that cannot be read is named with the reason', (t) => {
  for (const [file, reason] of [
    [join(directory, 'nowhere.yaml'), 'ENOENT'],
    [directory, 'EISDIR'],
  ] as const) {
    t.deepEqual(
      faultsOf(() => readIngressConfig({ ...ingress, PLAN_FILE: file })),
      [{ path: 'PLAN_FILE', message: `cannot read ${file} (${reason})` }],
    );
  }
});

test('an undefined alias is reported as a fault of the plan file, not as an unreadable file', (t) => {
  const file = planFileWith('default_plan: *free');
  const [fault] = faultsOf(() => readIngressConfig({ ...ingress, PLAN_FILE: file }));
  t.is(fault?.path, file);
  t.regex(fault?.message ?? '', /alias/i);
});

test('a worker needs KEY_PEPPER', (t) => {
  t.deepEqual(
    faultsOf(() => readWorkerConfig({ ...worker, KEY_PEPPER: '' })),
    [{ path: 'KEY_PEPPER', message: 'is required' }],
  );
  const other = 'b'.repeat(40);
  t.deepEqual(readWorkerConfig({ ...worker, KEY_PEPPER: `${secret},${other}` }).keyPeppers, [secret, other]);
  t.deepEqual(
    named(() => readWorkerConfig({ ...worker, KEY_PEPPER: 'hunter2' })),
    ['KEY_PEPPER[0]'],
  );
});

test('a variable that nothing knows, and that is one letter off a setting of any process, is refused with the setting', (t) => {
  const misspelled = {
    QUEUE_DEPHT_MAX: 'QUEUE_DEPTH_MAX',
    REDIS_URI: 'REDIS_URL',
    GUEST_KEY_SECRETS: 'GUEST_KEY_SECRET',
    BATCH_CONCURENCY: 'BATCH_CONCURRENCY',
    OTEL_SDK_DISABLE: 'OTEL_SDK_DISABLED',
    CONCURRENCI: 'CONCURRENCY',
  };
  const expected = Object.entries(misspelled).map(
    ([name, meant]) => `${name}: is not a setting; did you mean \`${meant}\`?`,
  );
  const env = Object.fromEntries(Object.keys(misspelled).map((name) => [name, 'hunter2']));
  for (const read of [
    () => readIngressConfig({ ...ingress, ...env }),
    () => readWorkerConfig({ ...worker, ...env }),
    () => readReconcileConfig({ ...both, ...env }),
  ]) {
    const faults = faultsOf(read);
    t.deepEqual(
      faults.map(({ path, message }) => `${path}: ${message}`),
      expected,
    );
    t.notRegex(JSON.stringify(faults), /hunter2/);
  }
  const others = { QUEUE_DEPTH_MAX: '1', BATCH_CONCURENCY: '', QUEUE_DPHT_MAX: '1', queue_depth_max: '1' };
  t.notThrows(() => readWorkerConfig({ ...worker, ...others }), 'settings of others, empty ones, and two letters');
});

test('a variable that is one letter off an API key of the plan file is not a setting, and stays', (t) => {
  t.notThrows(() => readWorkerConfig({ ...worker, CLOUD_API_KEY_2: 'of another backend' }));
  const PLAN_FILE = planFileWith(
    planText(({ backends }) => Object.assign(backends.cloud, { api_key_env: 'BASE_URI' })),
  );
  t.notThrows(() => readIngressConfig({ ...ingress, PLAN_FILE, BASE_URI: 'a key' }), 'the plan file knows it');
});

test('no variable that other programs commonly set is refused', (t) => {
  for (const name of commonVariables) t.notThrows(() => readIngressConfig({ ...ingress, [name]: '1' }), name);
  const links = { OPA_PORT: 'tcp://10.0.0.1:8181', OPA_PORT_8181_TCP: 'tcp://10.0.0.1:8181', OPA_SERVICE_PORT: '8181' };
  t.notThrows(() => readIngressConfig({ ...ingress, ...links }), 'links of Kubernetes to a service `opa`');
  t.throws(() => readIngressConfig({ ...ingress, OPA_PORT: '8181' }), { message: /did you mean `OPS_PORT`/ });
});

test('what is probably a mistake is a warning: a secret for two purposes, tiers, and keys of backends for workers', (t) => {
  const shared = { GUEST_KEY_SECRET: `${'a'.repeat(32)}, ${secret}` };
  const { warnings } = readIngressConfig({ ...ingress, ...shared });
  t.deepEqual(warnings, ['GUEST_KEY_SECRET: has a secret of KEY_PEPPER; use another one']);
  t.false(JSON.stringify(warnings).includes(secret));
  const keyless =
    'backends.cloud.api_key_env: the variable CLOUD_API_KEY is not set; a worker without it does not call this backend';
  for (const CLOUD_API_KEY of ['', undefined])
    t.deepEqual(readWorkerConfig({ ...worker, CLOUD_API_KEY }).warnings, [keyless]);
  const PLAN_FILE = planFileWith(
    planText(({ plans }) => Object.assign(plans.free, { model_tiers: ['guest', 'gold'] })),
  );
  const tier = 'plans.free.model_tiers: no model has the tier "gold"';
  t.deepEqual(readIngressConfig({ ...ingress, PLAN_FILE }).warnings, [tier]);
  t.deepEqual(readWorkerConfig({ ...ofWorkers, PLAN_FILE }).warnings, [tier, keyless]);
});

/**
 * Of shells, systemd, Docker, Kubernetes, npm, Node, GitHub Actions, GitLab, cloud platforms, OpenTelemetry and neighbours of a service.
 */
const commonVariables = `
  PATH HOME HOSTNAME LOGNAME USER SHELL SHLVL PWD OLDPWD TERM LANG LC_ALL TZ _ TMPDIR EDITOR PAGER DISPLAY MAIL SSH_AUTH_SOCK
  SSH_CONNECTION XDG_RUNTIME_DIR LS_COLORS COLORTERM DEBUG INVOCATION_ID JOURNAL_STREAM NOTIFY_SOCKET LISTEN_FDS LISTEN_PID
  WATCHDOG_USEC MAINPID MANAGERPID SYSTEMD_EXEC_PID POST GHOST HOSTS SORT PORTS TOOLS POOL POLLS XPORT HOSTED PORT_ SPORT HTTP_HOST
  HTTP_PORT HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS
  DOCKER_HOST DOCKER_CONFIG COMPOSE_PROJECT_NAME COMPOSE_FILE container YARN_VERSION NODE_VERSION NODE_ENV NODE_OPTIONS NODE_PATH
  NODE_COMPILE_CACHE NODE_NO_WARNINGS NODE_DEBUG UV_THREADPOOL_SIZE NO_COLOR FORCE_COLOR npm_config_cache npm_config_loglevel
  npm_package_name npm_package_version npm_lifecycle_event npm_node_execpath npm_execpath INIT_CWD MALLOC_ARENA_MAX
  MALLOC_MMAP_THRESHOLD_ GLIBC_TUNABLES LD_PRELOAD LD_LIBRARY_PATH GOMAXPROCS PYTHONPATH JAVA_HOME CI GITHUB_ACTIONS GITHUB_SHA
  GITHUB_REF GITHUB_TOKEN GITHUB_API_URL GITHUB_SERVER_URL GITHUB_RUN_ID RUNNER_OS RUNNER_TEMP CI_JOB_ID CI_API_V4_URL
  CI_SERVER_HOST CI_SERVER_PORT GITLAB_CI BUILD_ID BUILD_URL JOB_URL GIT_URL JENKINS_URL WEB_CONCURRENCY DYNO REDIS_TLS_URL
  REDISCLOUD_URL DATABASE_POOL MONGODB_URI K_SERVICE FUNCTION_TARGET WEBSITE_SITE_NAME AWS_REGION AWS_ACCESS_KEY_ID
  AWS_SECRET_ACCESS_KEY AZURE_CLIENT_ID GOOGLE_APPLICATION_CREDENTIALS ECS_CONTAINER_METADATA_URI OPENAI_API_KEY OPENAI_BASE_URL
  ANTHROPIC_API_KEY HF_TOKEN CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES SENTRY_DSN DD_AGENT_HOST REDIS_HOST REDIS_PORT
  REDIS_PASSWORD REDIS_SERVICE_HOST REDIS_SERVICE_PORT REDIS_PORT_6379_TCP REDIS_PORT_6379_TCP_ADDR REDISCLI_AUTH MONGODB_URL
  MONGODB_PASSWORD MONGODB_SERVICE_HOST MONGODB_PORT POSTGRES_URL MYSQL_HOST DB_URL DB_HOST APP_URL API_URL KUBERNETES_SERVICE_HOST
  KUBERNETES_SERVICE_PORT KUBERNETES_SERVICE_PORT_HTTPS KUBERNETES_PORT KUBERNETES_PORT_443_TCP_PROTO INFERENCE_INGRESS_SERVICE_HOST
  INFERENCE_INGRESS_PORT INFERENCE_INGRESS_SERVICE_PORT_HTTP POD_NAME POD_IP NAMESPACE NODE_NAME OTEL_SERVICE_NAME
  OTEL_RESOURCE_ATTRIBUTES OTEL_EXPORTER_OTLP_HEADERS OTEL_EXPORTER_OTLP_TIMEOUT OTEL_EXPORTER_OTLP_COMPRESSION
  OTEL_EXPORTER_OTLP_CERTIFICATE OTEL_EXPORTER_OTLP_METRICS_ENDPOINT OTEL_EXPORTER_OTLP_LOGS_ENDPOINT
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL OTEL_TRACES_EXPORTER OTEL_METRICS_EXPORTER OTEL_LOGS_EXPORTER OTEL_PROPAGATORS OTEL_LOG_LEVEL
  OTEL_BSP_SCHEDULE_DELAY OTEL_CONFIG_FILE OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT
  OTEL_EXPORTER_OTLP_TRACES_HEADERS OTEL_NODE_RESOURCE_DETECTORS
`
  .trim()
  .split(/\s+/);

test('the parsed settings are frozen at every depth', (t) => {
  for (const config of [readIngressConfig(ingress), readWorkerConfig(worker)]) assertFrozen(t, config, 'config');
});

function assertFrozen(t: { true(value: boolean, message: string): unknown }, value: unknown, path: string): void {
  if (typeof value !== 'object' || value === null) return;
  t.true(Object.isFrozen(value), path);
  for (const [name, item] of Object.entries(value)) assertFrozen(t, item, `${path}.${name}`);
}
