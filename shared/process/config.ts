import { readFileSync } from 'node:fs';
import type { z } from 'zod';
import { type ValidationIssue, validationIssuesOf } from '../errors.ts';
import { fileIssuesOf } from '../plan-file/backend-files.ts';
import {
  type PlanFile,
  type PlanFileResult,
  type PlanFileSource,
  parseInThread,
  parsePlanFile,
  placedIn,
  planWarnings,
  poolsOf,
  unreadable,
} from '../plan-file/plan-file.ts';
import {
  emptyIsSet,
  ingressSettings,
  list,
  misspelledSettings,
  noAudience,
  reconcileSettings,
  withUsedTracing,
  workerSettings,
} from './settings.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** The reason why a process cannot start: all configuration issues, each with its setting or its path in the plan file. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly issues: readonly ValidationIssue[];

  constructor(issues: readonly ValidationIssue[]) {
    super(`The configuration is wrong:\n${issues.map(({ path, message }) => `  ${path}: ${message}`).join('\n')}`);
    this.issues = issues;
  }
}

export type IngressConfig = ReturnType<typeof readIngressConfig>;
export type WorkerConfig = ReturnType<typeof readWorkerConfig>;
export type ReconcileConfig = ReturnType<typeof readReconcileConfig>;

/** Reads the ingress's settings, grouped by the part that uses them, and frozen. Throws `ConfigError`. */
export function readIngressConfig(env: Environment = process.env) {
  const { settings, planFile } = readSettings(ingressSettings, env);
  const base = settings.BASE_URL.replace(/\/$/, '');
  const consoleUrl = settings.CONSOLE_URL ?? `${base}/console`;
  return freeze({
    listener: { host: settings.HOST, port: settings.PORT, keepAliveMs: settings.KEEP_ALIVE_MS },
    shutdownDelayMs: settings.SHUTDOWN_DELAY_MS,
    connections: {
      connectionsMax: settings.CONNECTIONS_MAX,
      // Behind proxies, all connections come from the proxies.
      perAddressMax: settings.TRUST_PROXY === 0 ? settings.CONNECTIONS_PER_ADDRESS_MAX : undefined,
    },
    bodyBudgetBytes: settings.BODY_BUDGET_BYTES,
    trustedProxyHops: settings.TRUST_PROXY,
    authFailuresPerMinute: settings.AUTH_FAILURES_PER_MINUTE,
    settingsWritesPerMinute: settings.SETTINGS_WRITES_PER_MINUTE,
    links: {
      baseUrl: base,
      consoleUrl,
      docsUrl: pageFolder(settings.DOCS_URL ?? `${base}/docs`),
      topupUrl: settings.TOPUP_URL ?? `${consoleUrl}#top-up`,
    },
    /** Shown on the pages. `logoUrl` and `supportUrl` are normalized, and undefined if there is none. */
    product: {
      name: settings.PRODUCT_NAME,
      logoUrl: settings.PRODUCT_LOGO_URL && new URL(settings.PRODUCT_LOGO_URL).href,
      supportUrl: settings.SUPPORT_URL && new URL(settings.SUPPORT_URL).href,
    },
    signIn: signInConfig(settings),
    keyPeppers: settings.KEY_PEPPER,
    guestKeySecrets: settings.GUEST_KEY_SECRET,
    queue: {
      depthMax: settings.QUEUE_DEPTH_MAX,
      bytesMax: settings.QUEUE_BYTES_MAX,
      dashboardWritable: settings.QUEUES_WRITABLE,
    },
    ...bothConfig(settings),
    warnings: [...sharedSecrets(settings), ...planFile.warningsOf(planFile.initial.planFile)],
    planFile,
  });
}

/** Someone who learns one of the two could use it for what the other one protects. */
function sharedSecrets({ KEY_PEPPER, GUEST_KEY_SECRET }: z.infer<typeof ingressSettings>): string[] {
  const isShared = KEY_PEPPER.some((secret) => GUEST_KEY_SECRET.includes(secret));
  return isShared ? ['GUEST_KEY_SECRET: has a secret of KEY_PEPPER; use another one'] : [];
}

/**
 * Reads a worker's settings, frozen. `pools`: undefined if it serves all pools of the plan file. `variableOf` returns the variable that
 * `api_key_env` of a backend names. Throws `ConfigError`.
 */
export function readWorkerConfig(env: Environment = process.env) {
  const { settings, planFile } = readSettings(workerSettings, env, {
    variableOf: readVariable(env),
    always: fileIssuesOf,
    // Later, the last model of a pool may be removed while its workers run.
    atStart: (plan, { POOLS }) => unknownPools(plan, POOLS === undefined ? [] : list.parse(POOLS)),
  });
  return freeze({
    pools: settings.POOLS === undefined ? undefined : [...new Set(settings.POOLS)],
    concurrency: settings.CONCURRENCY,
    batchConcurrency: settings.BATCH_CONCURRENCY,
    variableOf: readVariable(env),
    keyPeppers: settings.KEY_PEPPER,
    ...bothConfig(settings),
    warnings: planFile.warningsOf(planFile.initial.planFile),
    planFile,
  });
}

/** Returns the variables with API keys of backends, by their names. */
export function readVariable(env: Environment = process.env): (name: string) => string | undefined {
  return (name) => env[name];
}

/** Reads the settings of `npm run reconcile`, frozen. Throws `ConfigError`. */
export function readReconcileConfig(env: Environment = process.env) {
  const { settings, planFile } = readSettings(reconcileSettings, env);
  return freeze({
    redisUrl: settings.REDIS_URL,
    databaseUrl: settings.DATABASE_URL,
    log: { level: settings.LOG_LEVEL, format: settings.LOG_FORMAT },
    usageMonthsKept: planFile.initial.planFile.usageMonthsKept,
  });
}

/** `audiences`: undefined if tokens name none. `consoleResource`: empty if the console names none. */
function signInConfig(settings: z.infer<typeof ingressSettings>) {
  const named = settings.AUTH_AUDIENCE ?? [settings.BASE_URL];
  const audiences = named.includes(noAudience) ? undefined : named;
  return {
    issuer: settings.AUTH_URL,
    audiences,
    clients: settings.AUTH_CLIENTS,
    operators: settings.AUTH_OPERATORS.map(claimRuleIn),
    accountClaim: settings.AUTH_ACCOUNT_CLAIM,
    nameClaim: settings.AUTH_NAME_CLAIM,
    acceptsUnmarked: settings.AUTH_UNMARKED_TOKENS === 'accept',
    tokenLifeMaxS: settings.AUTH_TOKEN_LIFE_MAX_S,
    consoleClientId: settings.CONSOLE_CLIENT_ID,
    consoleScopes: settings.CONSOLE_SCOPES,
    consoleResource: settings.CONSOLE_RESOURCE ?? audiences?.[0] ?? '',
  };
}

/** `claim=value`; the value may have further equals signs. */
function claimRuleIn(text: string) {
  const end = text.indexOf('=');
  return { claim: text.slice(0, end), value: text.slice(end + 1) };
}

/** Normalizes the URL: page names are appended to it, and it is sent in headers, so it has no slash at its end and is ASCII. */
function pageFolder(url: string): string {
  return new URL(url).href.replace(/\/+$/, '');
}

function bothConfig(settings: z.infer<typeof ingressSettings> | z.infer<typeof workerSettings>) {
  return {
    operations: {
      host: settings.OPS_HOST,
      port: settings.OPS_PORT,
      hostsAllowed: settings.OPS_HOSTS_ALLOWED ?? [],
    },
    redisUrl: settings.REDIS_URL,
    replyRedisUrl: settings.REPLY_REDIS_URL ?? settings.REDIS_URL,
    databaseUrl: settings.DATABASE_URL,
    log: { level: settings.LOG_LEVEL, format: settings.LOG_FORMAT },
    shutdownGraceMs: settings.SHUTDOWN_GRACE_MS,
    answerBudgetBytes: settings.ANSWER_BUDGET_BYTES,
    bodyBytesMax: settings.BODY_BYTES_MAX,
    outboxLengthMax: settings.OUTBOX_LENGTH_MAX,
    tracing: tracingConfig(settings),
    webhooks: {
      secretKeys: settings.WEBHOOK_SECRET_KEY,
      hostsPrivate: (settings.WEBHOOK_HOSTS_PRIVATE ?? []).map((host) => host.toLowerCase()),
    },
  };
}

/** `url`: where spans are sent; undefined if tracing is off. */
function tracingConfig(settings: z.infer<typeof ingressSettings> | z.infer<typeof workerSettings>) {
  const endpoint = settings.OTEL_EXPORTER_OTLP_ENDPOINT?.replace(/\/$/, '');
  const url = settings.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? (endpoint && `${endpoint}/v1/traces`);
  return {
    url,
    sampler: settings.OTEL_TRACES_SAMPLER,
    samplerRatio: settings.OTEL_TRACES_SAMPLER_ARG,
    genAi: settings.OTEL_SEMCONV_STABILITY_OPT_IN?.includes('gen_ai_latest_experimental') ?? false,
  };
}

type Check = (planFile: PlanFile, env: Environment) => ValidationIssue[];
type Checks = { always?: Check; atStart?: Check; variableOf?: (name: string) => string | undefined };

/** `always` and `atStart` check the plan file by what this process needs. `variableOf`: only of a process that calls backends. */
function readSettings<Schema extends z.ZodType<{ PLAN_FILE: string }>>(
  schema: Schema,
  env: Environment,
  { always = () => [], atStart = () => [], variableOf }: Checks = {},
): { settings: z.infer<Schema>; planFile: PlanFileSource } {
  // An empty variable counts as not set: Compose and shells pass unset variables as empty ones.
  const set = Object.fromEntries(
    Object.entries(env).filter(([name, value]) => value !== undefined && (value !== '' || emptyIsSet.has(name))),
  );
  const parsed = schema.safeParse(withUsedTracing(set), {
    error: (issue) => (issue.input === undefined ? 'is required' : undefined),
  });
  const { PLAN_FILE: file } = set;
  const reading = file === undefined ? { issues: [] } : readPlanFile(file);
  const keyNames = 'issues' in reading ? [] : Object.values(reading.planFile.backends).map((each) => each.apiKeyEnv);
  const issues = [
    ...misspelledSettings(set, new Set(keyNames)),
    ...(parsed.success ? [] : validationIssuesOf(parsed.error)),
    ...('issues' in reading ? reading.issues : [...always(reading.planFile, set), ...atStart(reading.planFile, set)]),
  ];
  if (!parsed.success || file === undefined || 'issues' in reading || issues.length > 0) throw new ConfigError(issues);
  const parse = async (text: string, signal: AbortSignal): Promise<PlanFileResult> => {
    const next = placed(file, await parseInThread(text, signal));
    const lacking = 'issues' in next ? [] : always(next.planFile, set);
    return lacking.length > 0 ? { issues: lacking } : next;
  };
  const warningsOf = (plan: PlanFile) => planWarnings(plan, variableOf);
  return { settings: parsed.data, planFile: { file, initial: reading, parse, warningsOf } };
}

function readPlanFile(file: string): PlanFileResult {
  try {
    return placed(file, parsePlanFile(readFileSync(file, 'utf8')));
  } catch (error) {
    return { issues: [unreadable(file, (error as NodeJS.ErrnoException).code)] }; // readFileSync throws only such errors
  }
}

function placed(file: string, plan: ReturnType<typeof parsePlanFile>): PlanFileResult {
  return 'issues' in plan ? { issues: plan.issues.map((issue) => placedIn(file, issue)) } : plan;
}

function unknownPools(planFile: PlanFile, pools: readonly string[]): ValidationIssue[] {
  const known = poolsOf(planFile);
  return pools
    .filter((pool) => !known.includes(pool))
    .map((pool) => ({ path: 'POOLS', message: `no model belongs to the pool "${pool}"` }));
}

function freeze<T extends object>(value: T): Readonly<T> {
  for (const item of Object.values(value)) if (typeof item === 'object' && item !== null) freeze(item);
  return Object.freeze(value);
}
