import { z } from 'zod';
import { failureOf } from '../../ingress/check-plan/probe-backends.ts';
import { type AskBackend, addressOf, createAskBackend } from '../../shared/fleet/ask-backend.ts';
import { createBackendAgents } from '../../shared/fleet/backend-agents.ts';
import { listedIn } from '../../shared/fleet/backend-facts.ts';

/** A server as the command line names it. `apiKeyEnv`: the variable with its API key. */
export type WantedBackend = { url: string; apiKeyEnv?: string | undefined };
/** `endpoints`: names as in a plan file. */
type OwnModel = { name: string; endpoints: readonly string[] };
/** `url` is the address of the API. `leftOut`: how many models are not in `models`. */
export type OwnBackend = WantedBackend & { models: readonly OwnModel[]; leftOut: number };

/** A large provider lists hundreds, and a plan file has 262,144 characters at most. */
const modelsMax = 300;
const connectMs = 3_000;
/** A provider that is far away takes longer than a server beside us. */
const answerMs = 10_000;

/**
 * Asks each server which models it serves, with `GET /models` below the address, or below its `/v1`. Throws an error for the developer if
 * one of them has no list, or an empty one. `variableOf` returns a variable of the environment.
 */
export async function findOwnBackends(
  wanted: readonly WantedBackend[],
  variableOf: (name: string) => string | undefined,
): Promise<OwnBackend[]> {
  await using agents = createBackendAgents({ connectMs: () => connectMs, onUnreadable() {} });
  const keys = {
    of: ({ apiKeyEnv }: { apiKeyEnv?: string | undefined }) => apiKeyEnv && variableOf(apiKeyEnv),
    lacks: () => false, // the next step says which one
  };
  const ask = createAskBackend({ agents, keys, timeoutMs: answerMs });
  return await Promise.all(
    wanted.map((backend) => {
      requireAddress(backend.url);
      const { apiKeyEnv } = backend;
      if (apiKeyEnv !== undefined && !variableOf(apiKeyEnv)) throw new Error(`The variable ${apiKeyEnv} is not set.`);
      return findModels(ask, backend);
    }),
  );
}

/** Throws if this is no address of a server, or if it has a secret: other users of this machine can read a command line. */
export function requireAddress(url: string): void {
  const { protocol, username, password, search, hash } = (URL.canParse(url) && new URL(url)) || noAddress;
  const shown = url.replace(/\/\/[^/]*@/, '//…@').slice(0, 200);
  if (username !== '' || password !== '' || search !== '')
    throw new Error(`${shown}: an address has no user, password or parameters. Name the API key by --backend-key-env.`);
  if (!/^https?:$/.test(protocol) || hash !== '')
    throw new Error(`${shown}: expected an address such as http://127.0.0.1:11434/v1.`);
}

const noAddress = { protocol: '', username: '', password: '', search: '', hash: '' };

/** The addresses of the API that this one can mean. */
export function apiAddresses(url: string): string[] {
  const address = url.replace(/\/+$/, '');
  return /\/v\d[\w.]*$/.test(address) ? [address] : [`${address}/v1`, address];
}

async function findModels(ask: AskBackend, { url: given, apiKeyEnv }: WantedBackend): Promise<OwnBackend> {
  const refusals: { status: number; text: string }[] = [];
  for (const url of apiAddresses(given)) {
    const backend = { url, location: 'on-prem' as const, ...(apiKeyEnv && { apiKeyEnv }) };
    const asked = await ask(backend, addressOf(backend, '/models')).catch((error: unknown) => {
      throw new Error(`${url}: ${failureOf(error)}. Does the server run, and is this its address?`);
    });
    const { status } = asked;
    const listed = status < 300 ? listedIn(asked) : undefined;
    if (listed !== undefined) return { ...(apiKeyEnv && { apiKeyEnv }), url, ...modelsOf(listed, url) };
    refusals.push({ status, text: `${url}/models: ${meaningOf(status, apiKeyEnv)}` });
  }
  // Of two addresses, the one that is unknown there says less.
  throw new Error((refusals.find(({ status }) => status !== 404) ?? refusals[0])?.text);
}

function meaningOf(status: number, apiKeyEnv: string | undefined): string {
  if (status === 401 || status === 403) {
    return apiKeyEnv === undefined
      ? `${status}, it wants an API key. Put it in a variable, and name that: --backend-key-env NAME.`
      : `${status}, it refuses the API key in ${apiKeyEnv}.`;
  }
  const answer = status < 300 ? 'its answer is not a list of models in JSON' : `it answers ${status}`;
  return `${answer}. Is this the address of an OpenAI-compatible API?`;
}

/** As in a plan file. */
const modelName = /^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$/;
const words = z.union([z.string(), z.array(z.string()), z.record(z.string(), z.unknown())]).catch('');
const modelSchema = z.object({ id: z.string().regex(modelName), type: words, task: words, capabilities: words });

function modelsOf(listed: readonly unknown[], url: string) {
  const named = new Map(
    listed.flatMap((each) => {
      const { data } = modelSchema.safeParse(each);
      return data === undefined ? [] : [[data.id, data] as const];
    }),
  );
  const models = [...named.values()].slice(0, modelsMax).map((model) => ({
    name: model.id,
    endpoints: endpointsOf(model),
  }));
  if (models.length > 0) return { models, leftOut: listed.length - models.length };
  const found = listed.length === 0 ? 'no models' : 'no model with a name that a plan file can have';
  throw new Error(`${url}: it lists ${found}. Load or pull a model there first.`);
}

/** By what the server says of the model, or else by its name. */
function endpointsOf({ id, type, task, capabilities }: z.infer<typeof modelSchema>): string[] {
  const said = [type, task, capabilities].map(textOf).join(' ').toLowerCase();
  const isChat = /chat|complet|generat/.test(said);
  const text = /rerank|score|embed/.test(said) ? said : isChat ? '' : id.toLowerCase();
  if (!isChat && /rerank|(^| )score/.test(text)) return ['rerank'];
  if (!isChat && /embed|minilm|(^|[/-])(bge|e5|gte)-/.test(text)) return ['embeddings'];
  return ['chat', 'completions'];
}

function textOf(said: z.infer<typeof words>): string {
  if (typeof said === 'string') return said;
  if (Array.isArray(said)) return said.join(' ');
  return Object.keys(said)
    .filter((name) => said[name] === true)
    .join(' ');
}
