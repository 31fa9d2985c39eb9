import { readFile, writeFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { stringify } from 'yaml';
import { type PlanFile, parsePlanFile, placedIn } from '../../shared/plan-file/plan-file.ts';
import { apiAddresses, findOwnBackends, type OwnBackend, requireAddress, type WantedBackend } from './own-backends.ts';
import { usualPlans } from './plan.ts';

/** `variables`: those of API keys that it names, and that are set. `found`: a sentence for each server; empty if the file was there. */
export type OwnPlan = { planFile: PlanFile; variables: Record<string, string>; found: readonly string[] };

type Wishes = {
  file: string;
  wanted: readonly WantedBackend[];
  /** Whether an existing file is written again. */
  again: boolean;
  variableOf: (name: string) => string | undefined;
};

/**
 * Returns the plan file of `npm start -- --backend`. Asks the servers and writes it if there is none, or if it is to be written again.
 * Otherwise it stays as it is, and must have these servers. Throws an error for the developer.
 */
export async function openOwnPlan({ file, wanted, again, variableOf }: Wishes): Promise<OwnPlan> {
  for (const { url } of wanted) requireAddress(url);
  const kept = again ? undefined : await readFile(file, 'utf8').catch(() => undefined);
  const backends = kept === undefined ? await findOwnBackends(wanted, variableOf) : [];
  const text = kept ?? ownPlanText(backends);
  const parsed = parsePlanFile(text);
  if ('issues' in parsed) {
    const issues = parsed.issues
      .map((issue) => placedIn(file, issue))
      .map(({ path, message }) => `${path}: ${message}`);
    throw new Error([...issues, `Mend it, or write it again: ${againAdvice}`].join('\n'));
  }
  const { planFile } = parsed;
  requireServers({ file, planFile, wanted });
  if (kept === undefined) await writeFile(file, text);
  const named = Object.values(planFile.backends).flatMap(({ apiKeyEnv }) => apiKeyEnv ?? []);
  const variables = named.flatMap((name) => {
    const value = variableOf(name);
    return value === undefined ? [] : [[name, value] as const];
  });
  return { planFile, variables: Object.fromEntries(variables), found: backends.map(sentenceOf) };
}

const againAdvice = 'add --write-plan to the command. Your changes of the file are lost then.';

/** Without this, another server than that of the command would answer. */
function requireServers({ file, planFile, wanted }: Pick<Wishes, 'file' | 'wanted'> & { planFile: PlanFile }): void {
  const known = new Set(Object.values(planFile.backends).map(({ url }) => url.replace(/\/+$/, '')));
  const missing = wanted.filter(({ url }) => !apiAddresses(url).some((address) => known.has(address)));
  if (missing.length === 0) return;
  const urls = missing.map(({ url }) => url).join(', ');
  throw new Error(
    `${file} has no backend with the address ${urls}. Add it there, or write the file again: ${againAdvice}`,
  );
}

const namesShown = 20;

function sentenceOf({ url, models, leftOut }: OwnBackend): string {
  const more = models.length - namesShown;
  const names = models.slice(0, namesShown).map(({ name }) => name);
  const parts = [...names, ...(more > 0 ? [`${more} more`] : [])].join(', ');
  return `${url}: ${parts}${leftOut > 0 ? ` (${leftOut} left out: too many, or with names that a plan file cannot have)` : ''}`;
}

const head = `# Written by npm start -- --backend, from what the servers list. Your changes stay, and apply at once.
# To write it again, add --write-plan to that command.
#
# models.<name>.endpoints  what the model is for: chat, completions, responses, messages, embeddings or rerank. Only chat and
#                          completions are assumed, and embeddings or rerank if the server says so, or the name of the model.
# models.<name>.backends   the servers that have the model. If one fails, the next is tried, on-prem first.
# models.<name>.output_tokens_max  with clamp_output_tokens, a larger limit of a program is lowered to this one.
# backends.<name>.requests_at_once  as many requests as the server runs at once; further ones wait here.
# backends.<name>.api_key_env  the variable with the API key. A key never stands in this file.
`;

/** A plan file with these servers and all their models, which every plan includes. */
export function ownPlanText(servers: readonly OwnBackend[]): string {
  const names = namesOf(servers);
  const byModel = new Map<string, { endpoints: readonly string[]; backends: string[] }>();
  for (const [index, { models }] of servers.entries()) {
    for (const { name, endpoints } of models) {
      const model = byModel.get(name) ?? { endpoints, backends: [] };
      model.backends.push(names[index] ?? '');
      byModel.set(name, model);
    }
  }
  const models = Array.from(byModel, ([name, { endpoints, backends }]) => {
    const limits = endpoints.includes('chat') ? { output_tokens_max: 8_192, clamp_output_tokens: true } : {};
    return [name, { tier: 'guest', pool: 'default', endpoints, backends, ...limits }] as const;
  });
  const backends = servers.map(({ url, apiKeyEnv }, index) => {
    const key = apiKeyEnv === undefined ? {} : { api_key_env: apiKeyEnv };
    return [names[index], { url, location: locationOf(url), requests_at_once: 16, ...key }] as const;
  });
  const plans = Object.entries(usualPlans).map(([name, plan]) => [name, { ...plan, model_tiers: ['guest'] }] as const);
  const planFile = {
    default_plan: 'free',
    plans: Object.fromEntries(plans),
    models: Object.fromEntries(models),
    backends: Object.fromEntries(backends),
  };
  return `${head}\n${stringify(planFile, { aliasDuplicateObjects: false })}`;
}

/** Each server by its host and port, which a failure then names. */
function namesOf(servers: readonly OwnBackend[]): string[] {
  const hosts = servers.map(({ url }) =>
    new URL(url).host.replace(/[^A-Za-z0-9.:-]/g, '').replace(/^[^A-Za-z0-9]+/, ''),
  );
  return hosts.map((host, index) => {
    const earlier = hosts.slice(0, index).filter((other) => other === host).length;
    return `${host.slice(0, 100) || 'server'}${earlier > 0 ? `/${earlier + 1}` : ''}`;
  });
}

/** A public name over HTTPS is taken for a provider. */
function locationOf(url: string): 'on-prem' | 'cloud' {
  const { protocol, hostname } = new URL(url);
  const isPrivate =
    isIP(hostname.replace(/^\[|\]$/g, '')) !== 0 ||
    !/\./.test(hostname) ||
    /\.(local|lan|internal|home\.arpa)$/.test(hostname);
  return protocol === 'https:' && !isPrivate ? 'cloud' : 'on-prem';
}
