import { isIP } from 'node:net';
import { z } from 'zod';
import { nearName } from '../endpoints/fields/field-names.ts';
import type { ValidationIssue } from '../errors.ts';
import { parseRedisUrl, redisUrlForms } from './redis-url.ts';

/** The settings of each process in its environment: their names, allowed values and defaults. */

const integer = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/, 'expected a whole number')
    .transform(Number)
    .pipe(z.number().min(min).max(max));
const port = integer(0, 65_535);
const url = (protocol: RegExp, what: string) =>
  z.url({ protocol, error: ({ input }) => (input === undefined ? 'is required' : `expected ${what}`) });
const webUrl = url(/^https?$/, 'an http or https URL');
const redisUrl = z.string().refine((text) => parseRedisUrl(text) !== undefined, `expected ${redisUrlForms}`);
const boolean = z.enum(['true', 'false']).transform((text) => text === 'true');
/** Comma-separated items. */
export const list = z.string().transform((text) => text.split(',').map((item) => item.trim()));
const hosts = list.pipe(z.array(z.string().refine(isHost, 'expected names or addresses, without ports')));
const hostsWithPorts = list.pipe(
  z.array(z.string().refine(isHostWithPort, 'expected names or addresses, with a port or `:*` if it is not 80 or 443')),
);
const names = list.pipe(z.array(z.string().min(1, 'expected a name between commas')));
const secrets = list.pipe(z.array(z.string().min(32, 'each secret needs at least 32 characters')).min(1));
/** Shown as text. Characters without a sign of their own could hide or reverse what stands beside them. */
const productName = z
  .string()
  .trim()
  .regex(/^[^\p{C}\p{Zl}\p{Zp}]{1,60}$/u, 'expected 1 to 60 characters of plain text');
const logoUrl = url(/^https?$/, 'an https URL').pipe(
  z.string().max(2_000).refine(isImageAddress, 'expected https, without user and password (http only for localhost)'),
);
const supportUrl = url(/^(https|mailto)$/, 'an https or mailto URL').pipe(
  z.string().max(2_000).refine(isOpen, 'expected an address without user and password'),
);
/** What a request for a token may name (RFC 6749 3.3). Without `openid` there is no ID token, which says who has signed in. */
const scopes = z
  .string()
  .max(1_000)
  .regex(/^[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*$/, 'expected scopes with one space between them')
  .refine((text) => text.split(' ').includes('openid'), 'expected openid among the scopes');
const claim = z.string().regex(/^[\x21-\x7e]{1,200}$/, 'expected the name of a claim');
/** A display name or an address can be changed or be given to another person: then that person would get the account. */
const accountClaim = claim
  .refine((name) => /^(sub|oid|.*_id)$/.test(name), 'expected sub, oid, or a name that ends in _id')
  .refine(
    (name) => !name.endsWith('client_id'),
    'expected the id of a person: client_id is the same for all people of a client',
  );
/** The value of `AUTH_AUDIENCE` for an issuer whose tokens name no audience. */
export const noAudience = 'none';
const audiences = names.transform((all) => all.map((name) => (name.toLowerCase() === noAudience ? noAudience : name)));
const claimRules = list.pipe(
  z.array(
    z.string().regex(/^[\x21-\x3c\x3e-\x7e]+=[^\p{C}]+$/u, 'expected claim=value between commas, such as roles=admin'),
  ),
);
const logLevel = z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal']).default('info');

const everyProcess = {
  REDIS_URL: redisUrl,
  DATABASE_URL: z.string().regex(/^(mongodb(\+srv)?:\/\/|sqlite:).+/, 'expected mongodb://… or sqlite:<file>'),
  PLAN_FILE: z.string(),
  LOG_LEVEL: logLevel,
  LOG_FORMAT: z.enum(['json', 'pretty']).default('json'),
};

/** Words that OpenTelemetry reads in any case. */
const anyCase = z.string().transform((text) => text.trim().toLowerCase());
const samplers = ['always_on', 'always_off', 'traceidratio'] as const;
const parentBasedSamplers = samplers.map((name) => `parentbased_${name}` as const);

/** Standard variables of OpenTelemetry that this program reads itself. Its packages read others: headers, timeouts, certificates. */
const tracing = {
  OTEL_EXPORTER_OTLP_ENDPOINT: webUrl.optional(),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: webUrl.optional(),
  OTEL_EXPORTER_OTLP_PROTOCOL: anyCase.pipe(z.literal('http/protobuf')).default('http/protobuf'),
  OTEL_TRACES_SAMPLER: anyCase.pipe(z.enum([...samplers, ...parentBasedSamplers])).default('parentbased_always_on'),
  OTEL_TRACES_SAMPLER_ARG: z
    .string()
    .regex(/^(0|1|0?\.\d{1,15}|1\.0+)$/, 'expected a number from 0 to 1')
    .transform(Number)
    .default(1),
  /** By OpenTelemetry, every other text is `false`. */
  OTEL_SDK_DISABLED: anyCase.transform((text) => text === 'true').default(false),
  OTEL_SEMCONV_STABILITY_OPT_IN: list.optional(),
};

type Variables = Readonly<Record<string, string | undefined>>;

/**
 * Leaves out the variables of OpenTelemetry if traces are off, so that they are not checked. An environment often has them for other
 * programs.
 */
export function withUsedTracing(env: Variables): Variables {
  const isDisabled = tracing.OTEL_SDK_DISABLED.parse(env.OTEL_SDK_DISABLED);
  const isOn = (env.OTEL_EXPORTER_OTLP_ENDPOINT ?? env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) !== undefined && !isDisabled;
  return isOn ? env : Object.fromEntries(Object.entries(env).filter(([name]) => !Object.hasOwn(tracing, name)));
}

const bothSides = {
  ...everyProcess,
  OPS_HOST: z.string().default('127.0.0.1'),
  OPS_HOSTS_ALLOWED: hosts.optional(),
  REPLY_REDIS_URL: redisUrl.optional(),
  SHUTDOWN_GRACE_MS: integer(0, 86_400_000).default(30_000),
  ANSWER_BUDGET_BYTES: integer(1_048_576, 17_179_869_184).default(100_663_296),
  BODY_BYTES_MAX: integer(1_024, 268_435_456).default(16_777_216),
  OUTBOX_LENGTH_MAX: integer(1, 100_000_000).optional(),
  WEBHOOK_SECRET_KEY: secrets.optional(),
  WEBHOOK_HOSTS_PRIVATE: hostsWithPorts.optional(),
  ...tracing,
};

const ingressShape = z.object({
  ...bothSides,
  PORT: port.default(8080),
  HOST: z.string().default('0.0.0.0'),
  OPS_PORT: port.default(8081),
  BASE_URL: webUrl,
  AUTH_URL: webUrl.pipe(z.string().refine(isOpen, 'expected an address without user and password')),
  AUTH_AUDIENCE: audiences.optional(),
  AUTH_CLIENTS: names.optional(),
  AUTH_OPERATORS: claimRules.default(['scope=svc:admin']),
  AUTH_ACCOUNT_CLAIM: accountClaim.default('sub'),
  AUTH_NAME_CLAIM: claim.optional(),
  AUTH_UNMARKED_TOKENS: z.enum(['accept', 'refuse']).default('refuse'),
  AUTH_TOKEN_LIFE_MAX_S: integer(60, 31_536_000).default(86_400),
  CONSOLE_URL: webUrl.optional(),
  TOPUP_URL: webUrl.optional(),
  DOCS_URL: webUrl
    .pipe(z.string().refine(isFolder, 'expected an address without user, password, query and fragment'))
    .optional(),
  PRODUCT_NAME: productName.default('Inference service'),
  PRODUCT_LOGO_URL: logoUrl.optional(),
  SUPPORT_URL: supportUrl.optional(),
  KEY_PEPPER: secrets,
  GUEST_KEY_SECRET: secrets,
  TRUST_PROXY: integer(0, 32).default(0),
  SHUTDOWN_DELAY_MS: integer(0, 600_000).default(10_000),
  KEEP_ALIVE_MS: integer(1_000, 7_200_000).default(65_000),
  AUTH_FAILURES_PER_MINUTE: integer(1, 1_000_000).default(300),
  SETTINGS_WRITES_PER_MINUTE: integer(1, 1_000_000).default(60),
  CONNECTIONS_MAX: integer(1, 1_000_000).default(10_000),
  CONNECTIONS_PER_ADDRESS_MAX: integer(1, 1_000_000).default(2_000),
  BODY_BUDGET_BYTES: integer(1_048_576, 17_179_869_184).default(134_217_728),
  QUEUE_DEPTH_MAX: integer(1, 1_000_000).default(2_000),
  QUEUE_BYTES_MAX: integer(1_024, 17_179_869_184).default(134_217_728),
  QUEUES_WRITABLE: boolean.default(false),
  CONSOLE_CLIENT_ID: z.string().default('console'),
  CONSOLE_SCOPES: scopes.default('openid svc:admin'),
  CONSOLE_RESOURCE: z
    .string()
    .max(1_000)
    .regex(/^[\x21-\x7e]*$/, 'expected the name of an audience')
    .optional(),
});

/** The settings whose empty value is one of its own. An empty list of operators is an error, because it reads as if there were none. */
export const emptyIsSet: ReadonlySet<string> = new Set(['AUTH_OPERATORS', 'CONSOLE_RESOURCE']);

export const ingressSettings = ingressShape
  .refine(({ AUTH_AUDIENCE: names }) => names === undefined || names.length === 1 || !names.includes(noAudience), {
    path: ['AUTH_AUDIENCE'],
    message: 'expected none alone, or names of audiences',
  })
  // Without both, tokens for every service of the issuer would pass.
  .refine(({ AUTH_AUDIENCE: names, AUTH_CLIENTS }) => !names?.includes(noAudience) || AUTH_CLIENTS !== undefined, {
    path: ['AUTH_CLIENTS'],
    message: 'is required if AUTH_AUDIENCE is none',
  });

export const workerSettings = z.object({
  ...bothSides,
  OPS_PORT: port.default(8082),
  KEY_PEPPER: secrets,
  POOLS: list.optional(),
  CONCURRENCY: integer(1, 10_000).default(1_024),
  BATCH_CONCURRENCY: integer(0, 10_000).default(16),
});

export const reconcileSettings = z.object(everyProcess);

/** The names of all settings of a process, as in its environment. */
export const settingNames = {
  ingress: Object.keys(ingressSettings.shape),
  worker: Object.keys(workerSettings.shape),
  reconcile: Object.keys(reconcileSettings.shape),
};

const knownNames = new Set(Object.values(settingNames).flat());
/** Shorter names (`PORT`, `HOST`, `POOLS`) are one letter away from too many variables of other programs. */
const longNames = [...knownNames].filter((name) => name.length >= 6);
/** Kubernetes and Docker describe a service `opa` to all its neighbours, as `OPA_PORT=tcp://10.0.0.1:8181`. */
const serviceLink = /^(tcp|udp|sctp):\/\//;

/** Lists the variables that no process of this service has, and whose names are one letter away from that of a setting. */
export function misspelledSettings(env: Variables, namedInPlan: ReadonlySet<string | undefined>): ValidationIssue[] {
  return Object.entries(env).flatMap(([name, value]) => {
    if (knownNames.has(name) || namedInPlan.has(name) || serviceLink.test(value ?? '')) return [];
    const meant = nearName(name, longNames);
    return meant === undefined ? [] : [{ path: name, message: `is not a setting; did you mean \`${meant}\`?` }];
  });
}

/**
 * The defaults of all settings of a process, as text: `required` if a setting must be set, and empty if its default depends on other
 * settings or on the plan file.
 */
export const settingDefaults = {
  ingress: defaultsOf(ingressSettings.shape),
  worker: defaultsOf(workerSettings.shape),
  reconcile: defaultsOf(reconcileSettings.shape),
};

function defaultsOf(shape: Readonly<Record<string, z.ZodType>>): Map<string, string> {
  const defaults = Object.entries(shape).map(([name, setting]) => {
    const { success, data } = setting.safeParse(undefined);
    return [name, success ? String(data ?? '') : 'required'] as const;
  });
  return new Map(defaults);
}

/** Returns whether this is the host part of a `Host` header, without its port; addresses have no brackets. */
function isHost(text: string): boolean {
  return isIP(text) !== 0 || /^[\w-]+(\.[\w-]+)*$/.test(text);
}

/** `receiver.internal`, `receiver.internal:8443`, `receiver.internal:*`, `[::1]:8443`. */
function isHostWithPort(text: string): boolean {
  if (isHost(text)) return true;
  const [, host = '', port = ''] = /^(.+):(\d{1,5}|\*)$/.exec(text) ?? [];
  const address = /^\[(.+)\]$/.exec(host)?.[1];
  const isNamed = address === undefined ? isHost(host) && isIP(host) !== 6 : isIP(address) === 6;
  return isNamed && (port === '*' || (Number(port) >= 1 && Number(port) <= 65_535));
}

/** Returns whether page names can be appended to the address, and whether it contains no credentials. */
function isFolder(address: string): boolean {
  return isOpen(address) && !/[?#]/.test(new URL(address).href);
}

/**
 * Returns whether a page may load an image from there. Its origin becomes a part of the pages' policy, which other characters could change.
 */
function isImageAddress(address: string): boolean {
  if (!isOpen(address)) return false;
  const { protocol, hostname } = new URL(address);
  if (protocol === 'http:') return ['localhost', '127.0.0.1', '[::1]'].includes(hostname);
  return /^([a-z0-9.-]+|\[[0-9a-f:.]+\])$/.test(hostname);
}

/** Returns whether the address contains no credentials. It is shown to clients or logged. */
function isOpen(address: string): boolean {
  const { username, password } = new URL(address);
  return username === '' && password === '';
}
