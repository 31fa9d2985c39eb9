import { z } from 'zod';
import { shorten } from '../json/texts.ts';
import type { Backend, PlanFile } from '../plan-file/plan-file.ts';
import { type AskAnswer, type AskBackend, addressOf, serverAddressOf } from './ask-backend.ts';

/** What a backend says of itself. Each text is printable and short. */
export type BackendFacts = {
  /** `vLLM 0.33.0`, or what its `server` header says. */
  engine: string;
  /** Names of the models that it serves. */
  models: readonly string[];
  /** Names of those that it is to serve and does not list. */
  missing: readonly string[];
  /** The largest context of the models that it is to serve; undefined if that of one is not known. */
  contextTokens: number | undefined;
  /** How many requests it runs at once. */
  slots: number | undefined;
};

const modelsMax = 5_000;
const textMax = 100;
const tokens = z.int().positive().max(1_000_000_000).optional().catch(undefined);

const modelSchema = z.object({
  id: z.string().min(1),
  owned_by: z.string().optional().catch(undefined),
  max_model_len: tokens,
  context_length: tokens,
  meta: z.object({ n_ctx: tokens, n_ctx_train: tokens }).nullish().catch(undefined),
});
type ListedModel = z.infer<typeof modelSchema>;

/** Some providers answer with the list itself. */
const listSchema = z.union([
  z.object({ data: z.array(z.unknown()) }).transform(({ data }) => data),
  z.array(z.unknown()),
]);

/** The names that the models of the plan file have at this backend. */
export function modelNamesAt({ models, backends }: Pick<PlanFile, 'models' | 'backends'>, name: string): string[] {
  const own = backends[name]?.model;
  if (own !== undefined) return [own];
  return Object.entries(models).flatMap(([model, { backends: of }]) => (of.includes(name) ? [model] : []));
}

/**
 * Asks a backend for its models, and for what engines of its kind say beside them. `names`: the models that it is to serve. Fails if there
 * is no answer; `refused` has the status if it is no list.
 */
export async function askFacts(
  ask: AskBackend,
  backend: Backend,
  names: readonly string[],
): Promise<BackendFacts | { refused: number }> {
  const asked = await ask(backend, addressOf(backend, '/models'));
  const listed = asked.status < 300 ? modelsIn(asked) : undefined;
  if (listed === undefined) return { refused: asked.status };
  const kind = kindOf(asked, listed);
  // Without its answer the rest is still known.
  const said =
    kind === undefined ? {} : await ask(backend, serverAddressOf(backend, kind.path)).then(objectIn, () => ({}));
  return {
    engine:
      kind === undefined ? serverOf(asked) : [kind.name, kind.version(said)].filter((part) => part !== '').join(' '),
    models: listed.map(({ id }) => shown(id)),
    ...servedOf(listed, names, kind?.takesAnyName === true),
    slots: kind?.slots?.(said),
  };
}

type AnswerFields = Readonly<Record<string, unknown>>;
type EngineKind = {
  name: string;
  /** By `owned_by` of its models, or by the `server` header. */
  isKnownBy: (owner: string | undefined, server: string) => boolean;
  path: string;
  version: (said: AnswerFields) => string;
  slots?: (said: AnswerFields) => number | undefined;
  /** Whatever name a request has, it gets the only model. */
  takesAnyName?: true;
};

const textAt = (said: AnswerFields, name: string) => (typeof said[name] === 'string' ? shown(said[name]) : '');
const slotsAt = (name: string) => (said: AnswerFields) => z.int().positive().max(1_000_000).safeParse(said[name]).data;

const engineKinds: readonly EngineKind[] = [
  {
    name: 'vLLM',
    path: '/version',
    version: (said) => textAt(said, 'version'),
    isKnownBy: (owner) => owner === 'vllm',
  },
  {
    name: 'SGLang',
    path: '/get_server_info',
    version: (said) => textAt(said, 'version'),
    isKnownBy: (owner) => owner === 'sglang',
    slots: slotsAt('max_running_requests'),
  },
  {
    name: 'llama.cpp',
    path: '/props',
    version: (said) => textAt(said, 'build_info'),
    isKnownBy: (owner, server) => owner === 'llamacpp' || server === 'llama.cpp',
    slots: slotsAt('total_slots'),
    takesAnyName: true,
  },
  {
    name: 'Ollama',
    path: '/api/version',
    version: (said) => textAt(said, 'version'),
    isKnownBy: (owner) => owner === 'library',
  },
];

function kindOf(asked: AskAnswer, [first]: readonly ListedModel[]): EngineKind | undefined {
  return engineKinds.find(({ isKnownBy }) => isKnownBy(first?.owned_by, serverOf(asked)));
}

function serverOf({ headers: { server } }: AskAnswer): string {
  return (typeof server === 'string' && shown(server)) || 'unknown server';
}

/** Returns the entries of a list of models, at most 5,000; undefined if this is no list. */
export function listedIn({ text }: Pick<AskAnswer, 'text'>): unknown[] | undefined {
  return listSchema.safeParse(parsed(text)).data?.slice(0, modelsMax);
}

function modelsIn(asked: AskAnswer): ListedModel[] | undefined {
  return listedIn(asked)?.flatMap((each) => modelSchema.safeParse(each).data ?? []);
}

function objectIn({ status, text }: AskAnswer): AnswerFields {
  return (status < 300 && z.record(z.string(), z.unknown()).safeParse(parsed(text)).data) || {};
}

function parsed(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? '');
  } catch {
    return undefined; // no JSON, or nested too deep for the parser
  }
}

function servedOf(listed: readonly ListedModel[], names: readonly string[], takesAnyName: boolean) {
  const [only, ...others] = listed;
  const found = names.map((name) => listed.find(({ id }) => id === name));
  const missing = names.filter((_, index) => found[index] === undefined);
  // A backend with one model may list it by a name of its own.
  const isOnly = missing.length > 0 && only !== undefined && others.length === 0;
  const contexts = (isOnly ? [only] : found).map((model) => (model === undefined ? undefined : contextOf(model)));
  const known = contexts.filter((context) => context !== undefined);
  return {
    missing: isOnly && takesAnyName ? [] : missing,
    contextTokens: known.length > 0 && known.length === contexts.length ? Math.max(...known) : undefined,
  };
}

/** Of llama.cpp the context that it runs with, else the one that the model was trained with. */
function contextOf({ max_model_len, context_length, meta }: ListedModel): number | undefined {
  return max_model_len ?? context_length ?? meta?.n_ctx ?? meta?.n_ctx_train;
}

function shown(text: string): string {
  return shorten(text.replace(/[^ -~]/g, '').trim(), textMax);
}
