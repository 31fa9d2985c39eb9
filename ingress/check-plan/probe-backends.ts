import { type AskBackend, askMs, createAskBackend, testHealth } from '../../shared/fleet/ask-backend.ts';
import { createBackendAgents } from '../../shared/fleet/backend-agents.ts';
import { askFacts, type BackendFacts, modelNamesAt } from '../../shared/fleet/backend-facts.ts';
import { followBackendKeys } from '../../shared/fleet/backend-keys.ts';
import { fileIssuesOf } from '../../shared/plan-file/backend-files.ts';
import { type Backend, missingVariables, type PlanFile } from '../../shared/plan-file/plan-file.ts';

/** What one backend has answered, in words. */
type ProbeReport = { text: string; isWell: boolean };

const namesShown = 5;

/**
 * Asks each backend for its health, its models and what it says of itself, with the keys of this process. Returns a line for each, in the
 * order of the plan file, and whether all are well.
 */
export async function probeBackends(
  planFile: Pick<PlanFile, 'models' | 'backends' | 'timeouts'>,
  { variableOf, timeoutMs = askMs }: { variableOf: (name: string) => string | undefined; timeoutMs?: number },
): Promise<{ lines: string[]; isWell: boolean }> {
  const { backends, timeouts } = planFile;
  await using parts = new AsyncDisposableStack();
  const agents = parts.use(createBackendAgents({ connectMs: () => timeouts.connectMs, onUnreadable() {} }));
  // Files that cannot be read are found below.
  const keys = parts.use(followBackendKeys({ variableOf, backends: () => backends, onUnreadable() {} }));
  const ask = createAskBackend({ agents, keys, timeoutMs });
  const probed = await Promise.all(
    Object.entries(backends).map(async ([name, backend]) => {
      const own = { backends: { [name]: backend } };
      const [missing] = [...missingVariables(own, variableOf), ...fileIssuesOf(own)];
      if (missing !== undefined) return { name, text: `${missing.path}: ${missing.message}`, isWell: false };
      return { name, ...(await probe(ask, backend, modelNamesAt(planFile, name))) };
    }),
  );
  return {
    lines: probed.map(({ name, text }) => `${name}: ${text}`),
    isWell: probed.every(({ isWell }) => isWell),
  };
}

async function probe(ask: AskBackend, backend: Backend, names: readonly string[]): Promise<ProbeReport> {
  const startedAt = performance.now();
  try {
    const facts = await askFacts(ask, backend, names);
    const ms = Math.round(performance.now() - startedAt);
    const found = 'refused' in facts ? unlisted(facts.refused, backend) : described(facts, names, ms);
    if (!found.isWell || backend.health === undefined) return found;
    const health = await testHealth(ask, backend).catch((error: unknown) => ({ failure: failureOf(error) }));
    return 'failure' in health ? { text: `its health test fails: ${health.failure}`, isWell: false } : found;
  } catch (error) {
    return { text: failureOf(error), isWell: false };
  }
}

const meanings: Readonly<Record<number, string>> = {
  401: 'its key is refused',
  402: 'its account is refused',
  403: 'its key is refused',
  429: 'it is busy, or its account has no quota left',
};

/** Some servers have no list of models. Then only a health test of another path can show that the address is right. */
function unlisted(status: number, { health }: Backend): ProbeReport {
  if (![404, 405, 501].includes(status))
    return { text: `${status}: ${meanings[status] ?? 'it does not answer with a list of models'}`, isWell: false };
  const text = `${status}: it does not list its models`;
  if (health !== undefined) return { text, isWell: true };
  return { text: `${text}; check its url, or set its health to a path that it has`, isWell: false };
}

function described(
  { engine, models, missing, contextTokens, slots }: BackendFacts,
  names: readonly string[],
  ms: number,
) {
  if (missing.length > 0) {
    const has = models.length === 0 ? 'no model' : shortList(models);
    return { text: `does not have ${shortList(missing)} (it has ${has})`, isWell: false };
  }
  const parts = [engine, `${ms} ms`];
  if (names.length > 0) parts.push(`has ${shortList(names)}`);
  if (contextTokens !== undefined) parts.push(`context ${contextTokens}`);
  if (slots !== undefined) parts.push(`${slots} at once`);
  return { text: parts.join(', '), isWell: true };
}

function shortList(names: readonly string[]): string {
  const left = names.length - namesShown;
  return [...names.slice(0, namesShown), ...(left > 0 ? [`${left} more`] : [])].join(', ');
}

/** Why a backend gave no answer, in words: `no connection (ECONNREFUSED)`. */
export function failureOf(error: unknown): string {
  if (!(error instanceof Error)) return 'no connection';
  if (error.name === 'TimeoutError') return 'no answer in time';
  const { code, message } = error as NodeJS.ErrnoException; // errors of sockets have a code
  if (message.startsWith('the backend answered ')) return message;
  return code === undefined ? 'no connection' : `no connection (${code})`;
}
